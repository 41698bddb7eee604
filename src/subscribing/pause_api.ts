import { BusError, subscriberNotFound } from '../errors.ts';
import type { ChangingCaller } from '../routing/caller.ts';
import { BOTH, CLIENTS, NO_CONTENT, NOTHING, type Route, route } from '../routing/route.ts';
import type { Subscribers } from './subscriber.ts';
import { SUBSCRIBER_PARAMS } from './subscribers_api.ts';

/**
 * The routes that pause and resume deliveries. Root may name any subscriber, and a client only itself. The paths under
 * `/subscriber/` name no token: routers log paths, and the token of a client can be a credential.
 */
export function pauseApi({ subscribers }: { subscribers: Subscribers }): Route[] {
  const pause = async (caller: ChangingCaller, token: string) => {
    const outcome = await subscribers.pause(token, roleOf(caller, token));
    if (outcome === 'subscriber_not_found') throw subscriberNotFound();
    return NO_CONTENT;
  };
  const resume = async (caller: ChangingCaller, token: string) => {
    const outcome = await subscribers.resume(token, roleOf(caller, token));
    if (outcome === 'subscriber_not_found') throw subscriberNotFound();
    if (outcome === 'paused_by_operator')
      throw new BusError(outcome, 'an operator paused this subscriber, and only root can resume it');
    return NO_CONTENT;
  };
  const pausing = { action: 'subscriber.pause', answers: NOTHING, errors: ['subscriber_not_found'] } as const;
  const resuming = {
    action: 'subscriber.resume',
    answers: NOTHING,
    errors: ['subscriber_not_found', 'paused_by_operator'],
  } as const;
  return [
    route('POST /subscribers/:token/pause', BOTH, {
      params: SUBSCRIBER_PARAMS,
      ...pausing,
      handle: ({ caller, params }) => pause(caller, params.token),
    }),
    route('POST /subscribers/:token/resume', BOTH, {
      params: SUBSCRIBER_PARAMS,
      ...resuming,
      handle: ({ caller, params }) => resume(caller, params.token),
    }),
    route('POST /subscriber/pause', CLIENTS, {
      ...pausing,
      handle: ({ caller }) => pause(caller, caller.token),
    }),
    route('POST /subscriber/resume', CLIENTS, {
      ...resuming,
      handle: ({ caller }) => resume(caller, caller.token),
    }),
  ];
}

function roleOf(caller: ChangingCaller, token: string): 'operator' | 'subscriber' {
  if (caller.role === 'root') return 'operator';
  if (caller.token === token) return 'subscriber';
  throw new BusError('forbidden', 'only root pauses and resumes other subscribers than yourself');
}
