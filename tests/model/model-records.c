/* Guard words in chunks, many keys at once, records claimed and freed, observers that come late. */
#include "tests/model/lists.h"

int main(int argc, char **argv)
{
        return world_main(argc, argv, world_records);
}
