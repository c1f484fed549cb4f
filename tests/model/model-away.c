/* Keys outside their home bucket: signs, and what heals them. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_away);
}
