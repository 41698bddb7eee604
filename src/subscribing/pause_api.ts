import { BusError } from '../errors.ts';
import type { ChangingCaller, ClientCaller } from '../routing/caller.ts';
import { BOTH, CLIENTS, NO_CONTENT, NOTHING, type Route, route } from '../routing/route.ts';
import { SUBSCRIBER_PARAMS } from './subscribers_api.ts';
import type { Subscriptions } from './subscription.ts';

type CallOfOne = { caller: ChangingCaller; params: { token: string } };
type OwnCall = { caller: ClientCaller };

/**
 * The routes that pause and resume deliveries. Root may name any subscriber, and a client only itself. The paths under
 * `/subscriber/` name no token: routers log paths, and the token of a client can be a credential.
 */
export function pauseApi({ subscriptions }: { subscriptions: Subscriptions }): Route[] {
  const notFound = () => new BusError('subscriber_not_found', 'there is no such subscriber');
  const pause = async ({ token, by }: Subject) => {
    if ((await subscriptions.pause(token, by)) === 'subscriber_not_found') throw notFound();
    return NO_CONTENT;
  };
  const resume = async ({ token, by }: Subject) => {
    const outcome = await subscriptions.resume(token, by);
    if (outcome === 'subscriber_not_found') throw notFound();
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
  const one = { params: SUBSCRIBER_PARAMS };
  return [
    route('POST /subscribers/:token/pause', BOTH, {
      ...one,
      ...pausing,
      handle: (call) => pause(ofOne(call)),
    }),
    route('POST /subscribers/:token/resume', BOTH, {
      ...one,
      ...resuming,
      handle: (call) => resume(ofOne(call)),
    }),
    route('POST /subscriber/pause', CLIENTS, { ...pausing, handle: (call) => pause(own(call)) }),
    route('POST /subscriber/resume', CLIENTS, { ...resuming, handle: (call) => resume(own(call)) }),
  ];
}

/** The subscriber to pause or resume, and the role of the caller. */
interface Subject {
  token: string;
  by: 'operator' | 'subscriber';
}

function own({ caller: { token } }: OwnCall): Subject {
  return { token, by: 'subscriber' };
}

function ofOne({ caller, params: { token } }: CallOfOne): Subject {
  if (caller.role === 'root') return { token, by: 'operator' };
  if (caller.token !== token)
    throw new BusError('forbidden', 'only root pauses and resumes other subscribers than yourself');
  return own({ caller });
}
