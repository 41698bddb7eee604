import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { checkRequests } from './requests.ts';

/** `npm run contract` makes 20,000, or as many as CONTRACT_REQUESTS says; CONTRACT_SEED makes the same ones again. */
const REQUESTS = Number(process.env.CONTRACT_REQUESTS ?? 1000);
const SEED = Number(process.env.CONTRACT_SEED ?? Math.floor(Math.random() * 1e9));

const api = new Api({ env: { ROUTEMASTER_CALLBACK_ALLOW: '203.0.113.0/24' } });

test('whatever is asked, valid or not, is answered as the document says, and nothing fails', async () => {
  const statuses = await checkRequests(api, REQUESTS, SEED);
  for (const status of ['200', '204', '400', '401', '403', '404'])
    assert.ok((statuses[status] ?? 0) > 5, `${status}: ${JSON.stringify(statuses)}`);
});
