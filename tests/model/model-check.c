/* The validator while others go on: it must report no false problem, nor read freed memory. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_checks);
}
