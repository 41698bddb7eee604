import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus } from './shared_bus.ts';
import { silent, terminal } from './shared_terminal.ts';

interface Counted {
  dead_letters: { batches: number };
}

/** Makes a subscriber with a dead letter, and with a queued event in a paused queue. */
async function laden(t: TestContext) {
  bus.announceError(/it is a dead letter now/);
  const { subscriber, topic, publisher, receiver } = await bus.scene(t);
  const { callback } = receiver;
  const subscription = { topics: [topic], callback, uuid: 'me', max: 1, timeout: 0, max_attempts: 1 };
  await subscriber.call('POST', '/subscription', subscription);
  receiver.usual = answer.status(500);
  const publish = () =>
    publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://a.example.com/' });
  await publish();
  const path = `/subscribers/${subscriber.token}`;
  const deadOf = async () => ((await subscriber.call('GET', path)) as Counted).dead_letters.batches;
  await until(async () => (await deadOf()) === 1);
  await subscriber.call('POST', '/subscriber/pause');
  await publish();
  const { token, secret } = subscriber;
  return { token, topic, publisher, deadOf, options: `-b ${bus.url} -t ${token}:${secret}` };
}

/** Types a command and an answer to its question. Resolves with what the terminal shows. */
async function typed(t: TestContext, line: string, reply: string): Promise<string> {
  const screen = terminal.rtmOnScreen(line);
  t.after(() => screen.kill('SIGKILL'));
  let text = '';
  screen.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  const closed = once(screen, 'close');
  await until(() => text.includes('[y/N] '), { what: 'the question' });
  screen.stdin.write(reply);
  await closed;
  return text.replaceAll('\r', '');
}

test('sub list shows who is paused, how old the oldest event is, and dead letters', async (t) => {
  const { options } = await laden(t);
  const { stdout } = await terminal.rtm(`sub list ${options}`);
  const standing = '  :state: paused\n  :health: \\d+\n  :dead_letters:\n    :batches: 1\n    :events: 1\n';
  assert.match(stdout, new RegExp(`\n    :oldest: \\d+\n    :oldest_age: '\\d+\\.\\d s'\n${standing}$`));
  await terminal.rtm(`sub del ${options}`);
});

test('sub del without a topic says what went with the subscription', async (t) => {
  const { options } = await laden(t);
  const had = 'removed the subscription, which had 1 topic, 1 queued event and 1 dead letter\n';
  assert.deepEqual(await terminal.rtmAlone(`sub del ${options}`), { ...silent, stderr: had });
  assert.match(
    (await terminal.rtm('sub del --help')).stdout,
    /from all, with its queue and its dead letters$/m,
  );
});

test('token del says what went with the client', async (t) => {
  const { token, topic, options } = await laden(t);
  const event = '{"type":"noop","url":"https://a.example.com/"}';
  const trigger = `{"topic":"${topic}_2","event":${event},"schedule":{"every":9000000}}`;
  await terminal.rtm(`trigger put hourly ${trigger} ${options}`);
  const { stderr } = await terminal.rtmAlone(`token del ${token} ${asRoot()}`);
  const had = '1 topic, 1 queued event, 1 dead letter and 1 trigger';
  assert.match(stderr, new RegExp(`^removed the client \\w+, which had ${had}\n$`));
});

test('at a terminal, commands that remove more than one thing ask first', async (t) => {
  const { token, topic, deadOf, options } = await laden(t);
  const ofTopic = `Remove the topic ${topic}, which has 1 subscriber? [y/N] `;
  const kept = await typed(t, `topic del ${topic} ${asRoot()}`, 'n\n');
  assert.equal(kept, `${ofTopic}n\nnot_confirmed: nothing was removed\n`);
  // Ctrl-D
  const closed = await typed(t, `dead purge --all --subscriber ${token} ${asRoot()}`, '\x04');
  assert.match(
    closed,
    new RegExp(`^Remove 1 dead letter of ${token}\\? \\[y/N\\] .*nothing was removed\n$`, 's'),
  );
  assert.equal(await deadOf(), 1);
  assert.equal(
    await typed(t, `topic del ${topic} ${asRoot()}`, 'y\n'),
    `${ofTopic}y\nremoved the topic ${topic}, which had 1 subscriber\n`,
  );
  const screen = terminal.rtmOnScreen(`sub del --yes ${options}`);
  t.after(() => screen.kill('SIGKILL'));
  let text = '';
  screen.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  await once(screen, 'close');
  assert.match(text, /^removed the subscription, /);
});
