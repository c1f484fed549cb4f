/* Every pair of operations on one key, from each start state. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_pairs(PAIRS_PLAIN));
}
