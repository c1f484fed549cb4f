/* The installed header alone, in the oldest languages that it promises: C99 and C++11. See
 * meson.build. */
#include <statebus.h>

int main(void)
{
        struct sb_options options = {0, 0, 0, 0};

        return (int)options.size;
}
