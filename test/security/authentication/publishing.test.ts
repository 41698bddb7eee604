import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerParameters, challengeFor, header } from '../../api/authentication/digest_client.ts';
import { type Answer, Api, problemIn, send } from '../../support/api.ts';

// A plain publish goes around Express and passport, any other through both; here in two real web processes.
const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
let otherPort: number;
const api = new Api({
  prepare: async () => {
    otherPort = await api.another();
  },
});

const challengesIn = ({ headers }: Answer) =>
  String(headers['www-authenticate'])
    .split(/, (?=Digest|Basic)/)
    .filter((each) => each.startsWith('Digest'));

for (const [way, target] of [
  ['plain', '/topics/widgets'],
  ['general', '/topics/widgets?'],
] as const) {
  test(`a publish by Digest, the ${way} way, is stored once, wherever a copy of it is sent`, async () => {
    await api.reset();
    const made = await api.call('POST', '/api_tokens', { as: 'root', body: '{"name":"shop"}' });
    const { token: user, secret } = JSON.parse(made.text);
    const publish = (port: number, authorization?: string) =>
      send(port, 'POST', target, authorization === undefined ? {} : { authorization }, EVENT);
    const challenge = challengeFor('SHA-256', challengesIn(await publish(api.port)));
    const answer = (count: number) =>
      header(answerParameters(challenge, { user, secret, uri: target, method: 'POST', count }));

    assert.equal((await publish(otherPort, answer(2))).status, 204);
    assert.equal((await publish(api.port, answer(1))).status, 204);
    for (const port of [api.port, otherPort, api.port]) {
      const copy = await publish(port, answer(1));
      assert.equal(problemIn(copy).code, 'unauthenticated');
      assert.equal(challengeFor('SHA-256', challengesIn(copy)).stale, 'true');
    }
    const topics = await api.call('GET', '/topics', { as: 'root' });
    assert.equal(JSON.parse(topics.text)[0].events, 2);

    const wrong = header(
      answerParameters(challenge, { user, secret: 'wrong', uri: target, method: 'POST', count: 3 }),
    );
    assert.equal((await publish(api.port, wrong)).status, 401);
    assert.equal((await publish(api.port, answer(3))).status, 204, 'who cannot prove itself uses no count');
  });
}
