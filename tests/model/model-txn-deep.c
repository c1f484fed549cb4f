/* Transactions with more preemptions than elsewhere, but only at chosen kinds of words. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_txn_deep);
}
