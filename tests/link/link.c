/* The program that each layer is linked into, whole: see meson.build. What matters is that it
 * links. */
int main(void)
{
        return 0;
}
