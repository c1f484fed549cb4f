/* Threads killed at every access, and reaped. */
#include "lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_reap);
}
