import { z } from 'zod';
import { MAX_CHARACTERS_PER_BYTE } from '../json.ts';
import { ALL, BOTH, MAX_BODY_BYTES, NOTHING, type Route, route } from '../routing/route.ts';
import { TriggerCalls, type TriggersParts } from './trigger_calls.ts';
import { TRIGGER_BODY, TRIGGER_PARAMS } from './trigger_input.ts';
import { ONE, PAGE, WHOSE } from './trigger_queries.ts';
import { TRIGGER_REPORT } from './trigger_report.ts';

/** The routes of `/triggers`. A client sees and changes its own triggers, and root those of all. Viewers see them. */
export function triggersApi(parts: TriggersParts): Route[] {
  const calls = new TriggerCalls(parts);
  const { maxEventDataBytes } = parts.limits;
  return [
    route('GET /triggers', ALL, {
      query: PAGE,
      answers: { 200: z.array(TRIGGER_REPORT) },
      handle: (request) => calls.list(request),
    }),
    route('GET /triggers/:name', ALL, {
      params: TRIGGER_PARAMS,
      query: ONE,
      answers: {
        200: TRIGGER_REPORT.extend({ preview: z.array(z.int()).optional().describe('The next times.') }),
      },
      errors: ['bad_trigger', 'trigger_not_found'],
      handle: (request) => calls.read(request),
    }),
    route('PUT /triggers/:name', BOTH, {
      action: 'trigger.put',
      params: TRIGGER_PARAMS,
      query: WHOSE,
      body: TRIGGER_BODY,
      maxBodyBytes: MAX_CHARACTERS_PER_BYTE * maxEventDataBytes + MAX_BODY_BYTES,
      answers: { 200: TRIGGER_REPORT, 201: TRIGGER_REPORT },
      errors: [
        'client_not_found',
        'bad_trigger',
        'topic_claimed',
        'limit_reached',
        'trigger_not_found',
        'storage_full',
      ],
      handle: (request) => calls.put(request),
    }),
    route('DELETE /triggers/:name', BOTH, {
      action: 'trigger.delete',
      params: TRIGGER_PARAMS,
      query: WHOSE,
      answers: NOTHING,
      errors: ['bad_trigger', 'trigger_not_found'],
      handle: (request) => calls.remove(request),
    }),
    route('POST /triggers/:name/fire', BOTH, {
      action: 'trigger.fire',
      params: TRIGGER_PARAMS,
      query: WHOSE,
      answers: { 200: z.object({ id: z.string() }) },
      errors: [
        'client_not_found',
        'bad_trigger',
        'trigger_not_found',
        'topic_claimed',
        'limit_reached',
        'rate_limited',
        'storage_full',
      ],
      handle: (request) => calls.fire(request),
    }),
  ];
}
