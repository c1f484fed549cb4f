/* Transactions: what becomes of their blocks when another client helps late, when they are aborted,
 * when their client is killed. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_txn_memory);
}
