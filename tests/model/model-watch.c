/* Watches of a key, and sleep. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_watches);
}
