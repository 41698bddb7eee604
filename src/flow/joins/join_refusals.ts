import { allows, mayNotPublish } from '../../authentication/scope.ts';
import { BusError } from '../../errors.ts';
import type { Scopes } from '../../routing/caller.ts';
import type { Reply } from '../../store/contracts.ts';
import { claimedByOther } from '../../subscribing/topic_refusals.ts';
import type { JoinRules } from './join_rules.ts';

/**
 * Returns the error for a join whose rules need more than the scopes of its client permit. Returns undefined if the
 * scopes permit them.
 */
export function beyondScope(
  scopes: Scopes | undefined,
  { sources, then, on_expiry }: JoinRules,
): BusError | undefined {
  const source = sources.findIndex(({ topic }) => !allows(scopes?.subscribe, topic));
  if (source >= 0)
    return forbidden(`this client may not subscribe to ${sources[source]?.topic}`, `sources.${source}.topic`);
  for (const [name, to] of Object.entries({ then, on_expiry }))
    if (to && !allows(scopes?.publish, to.topic)) return mayNotPublish(to.topic, `${name}.topic`);
  return undefined;
}

export function forbidden(detail: string, field?: string): BusError {
  return new BusError('forbidden', detail, field === undefined ? {} : { members: { field } });
}

type Refusal = Exclude<Reply<'put_join'>['outcome'], 'created' | 'changed'>;

/**
 * Returns the error for a join that the script has refused. If one of the topics of the join is the reason, `topic`
 * names it. `other` is the name of the client's join that publishes to `topic` already.
 */
export function refused(
  outcome: Refusal,
  { sources, then }: JoinRules,
  topic: string,
  other: string,
): BusError {
  const outlet = { members: { field: then.topic === topic ? 'then.topic' : 'on_expiry.topic' } };
  if (outcome === 'claimed_by_other') return new BusError('topic_claimed', claimedByOther(topic), outlet);
  if (outcome === 'has_join') {
    const detail = `your join ${other} publishes to ${topic}; a topic takes events from one join only`;
    return new BusError('bad_join', detail, outlet);
  }
  const source = {
    members: { field: `sources.${sources.findIndex((each) => each.topic === topic)}.topic` },
  };
  if (outcome === 'too_many_of_topic')
    return new BusError('bad_join', `as many joins of yours count ${topic} as may`, source);
  if (outcome === 'loop') {
    const detail = `joins lead from what this join publishes to its source ${topic}, so its events would go round for ever`;
    return new BusError('bad_join', detail, source);
  }
  const [what, setting] = LIMITS[outcome];
  return new BusError(
    'limit_reached',
    `${what}; nothing was changed. Remove some, or have ${setting} raised`,
  );
}

const LIMITS: Record<
  Exclude<Refusal, 'claimed_by_other' | 'has_join' | 'loop' | 'too_many_of_topic'>,
  [what: string, setting: string]
> = {
  too_many_joins: ['the bus has no room for more joins', 'ROUTEMASTER_MAX_JOINS'],
  too_many_client_joins: ['this client has as many joins as it may', 'ROUTEMASTER_MAX_CLIENT_JOINS'],
  no_room: ['the bus has no room for more topics', 'ROUTEMASTER_MAX_TOPICS'],
  owns_too_many: ['this client owns as many topics as it may', 'ROUTEMASTER_MAX_CLIENT_TOPICS'],
};
