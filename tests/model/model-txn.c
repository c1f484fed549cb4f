/* Transactions: what they promise to one another and to plain operations. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_txn);
}
