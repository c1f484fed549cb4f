/* header.c, for the C++ compiler. */
#include <statebus.h>
#include <stdio.h>

int main(void)
{
        struct sb_options options = {0, 0, 0, 0, 0};

        puts("ok header-cxx11");
        return (int)options.size;
}
