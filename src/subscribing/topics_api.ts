import { type RequestHandler, Router } from 'express';
import type { Authentication } from '../authentication/authentication.ts';
import { type Caller, callerOf } from '../authentication/caller.ts';
import type { PublicNames } from '../authentication/public_names.ts';
import { BusError } from '../errors.ts';
import { onlyMethods } from '../http/problems.ts';
import type { Publishing } from '../publishing/publish_route.ts';
import { checkedTopicName } from '../topic_name.ts';
import type { Topic, Topics } from './topic.ts';

export interface TopicsParts {
  authentication: Authentication;
  publishing: Publishing;
  topics: Topics;
  publicNames: PublicNames;
}

/** `/topics`: publish, list, remove. */
export function topicsApi(parts: TopicsParts): Router {
  const { authentication, publishing, topics, publicNames } = parts;
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
    .post((request, response, next) => publishing.take(request, response, request.params.name, next))
    .delete(authentication.require('client', 'root'), remove(topics))
    .all(onlyMethods('POST', 'DELETE'));

  router
    .route('/topic/:name')
    .delete(authentication.require('client', 'root'), remove(topics))
    .all(onlyMethods('DELETE'));
  return router;
}

type Handler = RequestHandler<{ name: string }>;

function remove(topics: Topics): Handler {
  return async (request, response) => {
    const topic = checkedTopicName(request.params.name);
    const caller = callerOf(request);
    const outcome = await topics.remove(topic, caller.role === 'client' ? caller.token : undefined);
    if (outcome === 'topic_not_found') throw new BusError('topic_not_found', `there is no topic ${topic}`);
    if (outcome === 'forbidden')
      throw new BusError('forbidden', `only the publisher of ${topic}, or root, may delete it`);
    response.writeHead(204).end();
  };
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
