/* header.c, for the C++ compiler. */
#include <statebus.h>

int main(void)
{
        struct sb_options options = {0, 0, 0, 0};

        return (int)options.size;
}
