/* Transactions: what becomes of their blocks when they are helped late, aborted, killed. */
#include "lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_txn_memory);
}
