import { z } from 'zod';
import type { PublicNames } from '../authentication/public_names.ts';
import { BusError, subscriberNotFound } from '../errors.ts';
import { ownerOf } from '../ids.ts';
import type { Caller } from '../routing/caller.ts';
import { badParameter, parameters } from '../routing/query.ts';
import { ALL, ok, type Route, route } from '../routing/route.ts';
import { oneOf } from '../routing/schemas.ts';
import {
  type History,
  METRICS,
  type MetricName,
  metricsOf,
  RANGES,
  type RangeName,
  type SubjectKind,
} from './history.ts';

const METRIC = oneOf(Object.keys(METRICS) as MetricName[]);
const RANGE = oneOf(Object.keys(RANGES) as RangeName[]);

const SUBJECT_RULE = 'must be bus, topic: and a name, or subscriber: and a token';

const QUERY = parameters({
  metric: METRIC.optional().describe('One metric alone; otherwise all of the subject.'),
  subject: z
    .string(SUBJECT_RULE)
    .regex(/^(bus|(topic|subscriber):.+)$/, SUBJECT_RULE)
    .default('bus')
    .describe('`bus`, `topic:` and a name, or `subscriber:` and a token, or for viewers a public name.'),
  range: RANGE.default('1h').describe(
    'Of `1h` there is a value each ten seconds, of the others one each five minutes.',
  ),
});

const HISTORY = z.object({
  subject: z.string(),
  range: RANGE,
  start: z.int().describe('Time of the first value of each metric (ms since 1970).'),
  step: z.int().describe('Milliseconds from one value to the next.'),
  metrics: z.partialRecord(
    METRIC,
    z.object({
      unit: z.string(),
      values: z.array(z.number().nullable()).describe('Null where nothing is known.'),
    }),
  ),
});
export type HistoryReport = z.infer<typeof HISTORY>;

/**
 * A request for a history counts as this many calls in the rate limit, because it takes several times as long as most
 * calls.
 */
const CALLS = 5;

interface HistoryParts {
  history: History;
  publicNames: PublicNames;
  topics: { has(name: string): Promise<boolean> };
  /**
   * `owners` returns the tokens of all clients that have a subscriber or a join. If a viewer names a subscriber by its
   * public name, the route finds the token of the subscriber among them.
   */
  subscribers: { has(token: string): Promise<boolean>; owners(): Promise<string[]> };
}

/**
 * The route `/history`: published and delivered events and other metrics of the last two days. A client may see the
 * metrics of the bus, of all topics, and of its own subscriber and joins.
 */
export function historyApi(parts: HistoryParts): Route[] {
  const { history, publicNames, topics, subscribers } = parts;

  /**
   * Finds a subscriber by its token or, for a viewer, by its public name. Throws if there is no such subscriber, or if
   * a client asks for a subscriber or join that is not its own. Returns the token as `name`. `priceInCalls` is the
   * price of the search: this many calls in the rate limit.
   */
  const subscriberOf = async (caller: Caller, name: string) => {
    if (caller.role === 'client' && ownerOf(name) !== caller.token)
      throw new BusError('forbidden', 'a client sees the history of its own subscriptions alone');
    const { token, priceInCalls } = await publicNames.tokenGiven(caller, name, () => subscribers.owners());
    if (token === undefined || !(await subscribers.has(token))) throw subscriberNotFound();
    return { name: token, priceInCalls };
  };
  const topicOf = async (name: string) => {
    if (!(await topics.has(name)))
      throw new BusError('topic_not_found', `there is no topic ${name}; GET /topics lists them`);
    return { name, priceInCalls: 0 };
  };

  return [
    route('GET /history', ALL, {
      query: QUERY,
      answers: { 200: HISTORY },
      errors: ['subscriber_not_found', 'topic_not_found'],
      async handle({ caller, query: { subject, range, metric } }) {
        const [kind, given] = parted(subject);
        if (metric !== undefined && !metricsOf(kind).includes(metric))
          throw badParameter('metric', `must be one of ${metricsOf(kind).join(', ')} for this subject`);
        const found =
          kind === 'bus'
            ? { name: '', priceInCalls: 0 }
            : await (kind === 'topic' ? topicOf(given) : subscriberOf(caller, given));
        const shown = await history.read(kind, found.name, range, metric);
        return { ...ok({ subject, range, ...shown }), priceInCalls: found.priceInCalls + CALLS - 1 };
      },
    }),
  ];
}

function parted(subject: string): [kind: SubjectKind, name: string] {
  const colon = subject.indexOf(':');
  return colon < 0 ? ['bus', ''] : [subject.slice(0, colon) as SubjectKind, subject.slice(colon + 1)];
}
