/* Places on a long chain; see chain.h. */

#include "ring/log/chain.h"

#include <string.h>

uint64_t sb_chain_begin(struct sb_chain *chain, uint64_t rev)
{
        uint32_t level;

        if (!chain->any)
                return 0;
        chain->steps = 0;
        memset(chain->passed, 0, sizeof(chain->passed));
        for (level = 0; level < SB_CHAIN_LEVELS; level++)
                if (chain->places[level].at && chain->places[level].rev > rev)
                        return chain->places[level].at;
        return 0;
}

void sb_chain_pass(struct sb_chain *chain, uint64_t at, uint64_t rev)
{
        uint64_t every = SB_CHAIN_FIRST;
        uint32_t level;

        if (!chain->any)
                *chain = (struct sb_chain){.any = true};
        chain->steps++;
        for (level = 0; level < SB_CHAIN_LEVELS && chain->steps % every == 0; level++) {
                chain->passed[level][0] = chain->passed[level][1];
                chain->passed[level][1] = (struct sb_chain_place){.at = at, .rev = rev};
                every *= SB_CHAIN_STEP;
        }
}

void sb_chain_end(struct sb_chain *chain)
{
        uint32_t level;

        for (level = 0; chain->any && level < SB_CHAIN_LEVELS; level++)
                if (chain->passed[level][0].at)
                        chain->places[level] = chain->passed[level][0];
}
