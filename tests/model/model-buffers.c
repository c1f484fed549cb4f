/* The same pairs under TSO: a store buffer may outlive a switch. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_pairs(PAIRS_BUFFERED));
}
