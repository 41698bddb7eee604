import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import express from 'express';
import passport from 'passport';
import { Basic } from '../../../src/api/authentication/basic.ts';
import { Credentials } from '../../../src/api/authentication/credentials.ts';
import { ClientDirectory } from '../../../src/models/client_directory.ts';

// The bus runs its strategies by itself, for speed; they are passport strategies all the same.
const clients = new ClientDirectory({ find: async () => undefined });
const chain = new passport.Passport().use('basic', new Basic(new Credentials('root-key', clients)));
const app = express().get('/', chain.authenticate('basic', { session: false }), (request, response) => {
  response.json(request.user);
});
const server = createServer(app);

before(() => once(server.listen(0, '127.0.0.1'), 'listening'));
after(() => server.close());

async function get(user: string): Promise<Response> {
  const authorization = `Basic ${Buffer.from(`${user}:`).toString('base64')}`;
  return fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, { headers: { authorization } });
}

test('passport runs the Basic strategy', async () => {
  const answer = await get('root-key');
  assert.deepEqual([answer.status, await answer.json()], [200, { role: 'root' }]);
  assert.equal((await get('somebody')).status, 401);
});
