/* The validator while others go on: it must not cry wolf, nor read freed memory. */
#include "lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_checks);
}
