/* The messages of the attach protocol: this file makes and judges them; see hello.h. */

#include "ring/attach/hello.h"

#include <errno.h>
#include <string.h>

#include "shm/base/result.h"
#include "shm/layout/superblock.h"

void sb_hello_ask(uint32_t verb, uint32_t access, uint64_t ticket, struct sb_hello_request *ret)
{
        *ret = (struct sb_hello_request){
                .magic = SB_HELLO_MAGIC,
                .protocol = SB_HELLO_PROTOCOL,
                .verb = verb,
                .layout_version = SB_LAYOUT_VERSION,
                .features = SB_HELLO_FEATURES,
                .access = access,
                .ticket = ticket,
        };
}

int sb_hello_judge(const void *packet, size_t len, uint32_t features, struct sb_hello_request *ret)
{
        struct sb_hello_request request;

        /* Another protocol version may have another size. The first fields are the same in all, so
         * the version is judged before the size. */
        if (len < offsetof(struct sb_hello_request, layout_version))
                return -EPROTO;
        memset(&request, 0, sizeof(request));
        memcpy(&request, packet, len < sizeof(request) ? len : sizeof(request));
        if (request.magic != SB_HELLO_MAGIC)
                return -EPROTO;
        if (request.protocol != SB_HELLO_PROTOCOL)
                return -EPROTONOSUPPORT;
        if (len != sizeof(request))
                return -EPROTO;
        if (request.layout_version != SB_LAYOUT_VERSION || (features & ~request.features))
                return -EPROTONOSUPPORT;
        if (request.zero || request.access > SB_PEER)
                return -EINVAL;
        if (request.verb < SB_HELLO_ATTACH || request.verb > SB_HELLO_ATTACH_OPERATOR)
                return -EINVAL;
        if (!request.ticket)
                return -EINVAL;
        *ret = request;
        return 0;
}

void sb_hello_refuse(int result, struct sb_hello_answer *ret)
{
        *ret = (struct sb_hello_answer){
                .magic = SB_HELLO_MAGIC,
                .protocol = SB_HELLO_PROTOCOL,
                .result = result,
                .layout_version = SB_LAYOUT_VERSION,
        };
}

int sb_hello_hear(const void *packet, size_t len, struct sb_hello_answer *ret)
{
        struct sb_hello_answer answer;

        if (len < offsetof(struct sb_hello_answer, layout_version))
                return -EPROTO;
        /* Of a shorter answer only the words up to layout_version are looked at. */
        memcpy(&answer, packet, len < sizeof(answer) ? len : sizeof(answer));
        if (answer.magic != SB_HELLO_MAGIC)
                return -EPROTO;
        if (answer.protocol != SB_HELLO_PROTOCOL)
                return -EPROTONOSUPPORT;
        if (len != sizeof(answer))
                return -EPROTO;
        if (!answer.result && (answer.layout_version != SB_LAYOUT_VERSION ||
                                      (answer.features & ~SB_HELLO_FEATURES)))
                return -EPROTONOSUPPORT;
        *ret = answer;
        return 0;
}
