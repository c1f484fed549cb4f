/* The ordered index: branches that grow, are copied and go. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_order);
}
