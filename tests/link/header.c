/* The installed header alone, in the oldest languages that it promises: C99 and C++11. See
 * meson.build. */
#include <statebus.h>
#include <stdio.h>

int main(void)
{
        struct sb_options options = {0, 0, 0, 0, 0};

        puts("ok header-c99");
        return (int)options.size;
}
