/* The same pairs, the first of the two killed at every access and reaped meanwhile. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_pairs(PAIRS_KILLED));
}
