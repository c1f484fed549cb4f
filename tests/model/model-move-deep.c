/* Deeper: versions that move out of a window, beside all that may happen to them meanwhile. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_moves_deep);
}
