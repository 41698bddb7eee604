import { type RequestHandler, Router } from 'express';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import type { PublicNames } from '../models/public_names.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE, type Topic, type Topics } from '../models/topic.ts';
import type { Publisher } from '../services/publish.ts';
import type { Authentication } from './authentication/authentication.ts';
import { type Caller, callerOf } from './authentication/caller.ts';
import { readText } from './body.ts';
import { type EventLimits, readEvents } from './event_input.ts';
import { onlyMethods } from './problems.ts';

export interface TopicsParts {
  authentication: Authentication;
  publisher: Publisher;
  topics: Topics;
  publicNames: PublicNames;
  limits: EventLimits;
  /** Called when a publish found the storage full: memory is to be freed at once. */
  storageFull: () => void;
}

/** `/topics`: publish, list, remove. */
export function topicsApi(parts: TopicsParts): Router {
  const { authentication, topics, publicNames } = parts;
  const router = Router({ strict: true, caseSensitive: true });

  router
    .route('/topics')
    .get(authentication.require('client', 'root'), async (request, response) => {
      const list = await topics.list();
      const shown = await publisherNames(publicNames, callerOf(request), list);
      response.json(
        list.map((topic) => ({ ...topic, publisher: topic.publisher && shown(topic.publisher) })),
      );
    })
    .all(onlyMethods('GET'));

  router
    .route('/topics/:name')
    .post(authentication.require('client'), publish(parts))
    .delete(authentication.require('client', 'root'), remove(topics))
    .all(onlyMethods('POST', 'DELETE'));

  router
    .route('/topic/:name')
    .delete(authentication.require('client', 'root'), remove(topics))
    .all(onlyMethods('DELETE'));
  return router;
}

type Handler = RequestHandler<{ name: string }>;

/** Answers 204 when the events are in the batch of every subscriber of the topic, and only then. */
function publish({ publisher, limits, storageFull }: TopicsParts): Handler {
  return async (request, response) => {
    const topic = checkedName(request.params.name);
    const caller = callerOf(request) as Caller & { role: 'client' };
    const ndjson = request.headers['content-type']?.startsWith('application/x-ndjson') ?? false;
    const events = readEvents(await readText(request), ndjson, topic, clock.wallMs(), limits);
    let accepted: boolean;
    try {
      accepted = await publisher.publish({ topic, client: caller.token, events });
    } catch (error) {
      if (error instanceof BusError && error.code === 'storage_full') storageFull();
      throw error;
    }
    if (!accepted)
      throw new BusError(
        'topic_claimed',
        `another client publishes to ${topic}; choose another topic, or have that client or root delete it`,
      );
    response.writeHead(204).end();
  };
}

function remove(topics: Topics): Handler {
  return async (request, response) => {
    const topic = checkedName(request.params.name);
    const caller = callerOf(request);
    const outcome = await topics.remove(topic, caller.role === 'client' ? caller.token : undefined);
    if (outcome === 'topic_not_found') throw new BusError('topic_not_found', `there is no topic ${topic}`);
    if (outcome === 'forbidden')
      throw new BusError('forbidden', `only the publisher of ${topic}, or root, may delete it`);
    response.writeHead(204).end();
  };
}

function checkedName(name: string): string {
  if (TOPIC_NAME.test(name)) return name;
  throw new BusError('bad_topic', `a topic name has ${TOPIC_NAME_RULE}`);
}

/** A token can be a credential: other clients get the publisher's public name. Root, and the publisher itself, get the token. */
async function publisherNames(
  names: PublicNames,
  caller: Caller,
  list: Topic[],
): Promise<(token: string) => string> {
  if (caller.role === 'root') return (token) => token;
  const publicName = await names.of(list.flatMap(({ publisher }) => publisher ?? []));
  return (token) => (token === caller.token ? token : publicName(token));
}
