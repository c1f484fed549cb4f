/* The magazine: replaced versions that stay with their writer, which builds new versions in them.
 */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_magazine);
}
