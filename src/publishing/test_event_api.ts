import { z } from 'zod';
import { BusError, subscriberNotFound } from '../errors.ts';
import { eventId, isJoinToken, uidSeed } from '../ids.ts';
import type { ChangingCaller, ClientCaller } from '../routing/caller.ts';
import { BOTH, CLIENTS, ok, type Route, route } from '../routing/route.ts';
import type { Partitions } from '../store/partitions.ts';
import type { RedisTimes } from '../store/redis_times.ts';
import { SUBSCRIBER_PARAMS } from '../subscribing/subscribers_api.ts';
import { eventText } from './event.ts';
import type { PublishRecorder } from './publication.ts';
import type { StorageGuard } from './storage_guard.ts';

/** The content of a test event. Its URL leads nowhere (RFC 2606), so a receiver that fetches the URL does no harm. */
const TEST = {
  topic: 'routemaster_test',
  type: 'noop',
  url: 'https://routemaster.invalid/test',
} as const;

const SENT = z.object({ delivery: z.string().describe('The id of the batch that has the event alone.') });

type CallOfOne = { caller: ChangingCaller; params: { token: string } };

interface TestEventParts {
  partitions: Partitions;
  times: Pick<RedisTimes, 'nowMs'>;
  guard: Pick<StorageGuard, 'checkSubscriber'>;
  recorder: Pick<PublishRecorder, 'added'>;
}

/**
 * The routes that send a test event to one subscriber. Root may name any subscriber, and a client only itself. The path
 * `/subscriber/test` has no token, because a client's token may be secret, and routers write paths to their logs.
 */
export function testEventApi({ partitions, times, guard, recorder }: TestEventParts): Route[] {
  const sending = {
    action: 'subscriber.test',
    answers: { 200: SENT },
    errors: ['subscriber_not_found', 'storage_full'],
  } as const;

  const send = async (token: string) => {
    const partition = partitions.ofSubscriber(token);
    const event = eventText({ ...TEST, id: eventId(), timestamp: await times.nowMs(partition) });
    const { bid } = isJoinToken(token)
      ? { bid: undefined }
      : await partition.run('send_test', { token, uidSeed: uidSeed(), event });
    if (bid === undefined) throw subscriberNotFound();
    recorder.added(token, 1);
    return ok({ delivery: bid });
  };

  return [
    route('POST /subscribers/:token/test', BOTH, {
      ...sending,
      params: SUBSCRIBER_PARAMS,
      refuseEarly: ({ params: { token } }: CallOfOne) => guard.checkSubscriber(token),
      handle({ caller, params: { token } }: CallOfOne) {
        if (caller.role === 'client' && caller.token !== token)
          throw new BusError('forbidden', 'only root sends test events to other subscribers than yourself');
        return send(token);
      },
    }),
    route('POST /subscriber/test', CLIENTS, {
      ...sending,
      refuseEarly: ({ caller }: { caller: ClientCaller }) => guard.checkSubscriber(caller.token),
      handle: ({ caller }: { caller: ClientCaller }) => send(caller.token),
    }),
  ];
}
