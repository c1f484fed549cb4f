/* tests/harness/harness-bites runs this program: functions that pass, fail and skip show that
 * test.h reports each. */
#include "tests/harness/test.h"

static void test_that_holds(void)
{
        CHECK(1 + 1 == 2);
        CHECK_EQ(1 + 1, 2);
}

static void test_that_breaks(void)
{
        CHECK(1 + 1 == 3);
        printf("a failed CHECK did not end its function\n");
}

static void test_that_differs(void)
{
        CHECK_EQ(1 + 1, 3);
        printf("a failed CHECK_EQ did not end its function\n");
}

static void test_that_skips(void)
{
        TEST_SKIP("no such machine");
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_that_holds);
        RUN(test_that_breaks);
        RUN(test_that_differs);
        RUN(test_that_skips);
        return test_end();
}
