import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus, client } from './shared_bus.ts';
import { silent, terminal } from './shared_terminal.ts';

const TIME = '20\\d\\d-\\d\\d-\\d\\dT[\\d:.]+Z';
const AUDIT_HEADS = 'AT  ROLE  CLIENT  ACTION  TARGET  STATUS  CODE  ENDED  ADDRESS\n';

test('audit lists who has changed what, by client, action and time', async (t) => {
  const { subscriber } = await bus.scene(t);
  const { token } = subscriber;
  await subscriber.call('POST', '/subscriber/pause');
  await subscriber.call('POST', '/subscriber/resume');
  const audit = (more: string) => terminal.rtm(`audit --client ${token} ${more} ${asRoot()}`);
  const count = async () => (await audit('')).stdout.split('\n').length - 2;
  await until(async () => (await count()) === 3);
  const { stdout, stderr, status } = await terminal.rtm(`audit --client ${token} ${asRoot()}`);
  const row = (action: string) => `${TIME} +client +${token} +${action} +- +204 +- +- +127\\.0\\.0\\.1\n`;
  const rows = ['subscriber.resume', 'subscriber.pause', 'subscription.put'].map(row).join('');
  assert.match(
    stdout,
    new RegExp(`^AT +ROLE +CLIENT +ACTION +TARGET +STATUS +CODE +ENDED +ADDRESS\n${rows}$`),
  );
  assert.deepEqual([stderr, status], ['', 0]);

  const json = await audit('--json --action subscriber.pause --since 1h');
  const [entry, ...others] = JSON.parse(json.stdout);
  assert.deepEqual([entry.action, entry.client, others.length], ['subscriber.pause', token, 0]);
  const at = new Date(entry.at).toISOString();
  assert.equal((await audit(`--action subscriber.pause --since ${at}`)).stdout.split('\n').length, 3);
  const later = new Date(entry.at + 1).toISOString();
  const none = { ...silent, stdout: AUDIT_HEADS, stderr: 'nothing matches\n' };
  assert.deepEqual(await audit(`--action subscriber.pause --since ${later}`), none);
  const newest = await audit('--limit 1');
  assert.match(newest.stdout, new RegExp(`^AT .*\n${row('subscriber.resume')}$`));
  assert.equal(newest.stderr, 'these are the newest 1; --limit shows more\n');
  assert.equal((await audit('--limit 3')).stderr, '');
  await terminal.rtm(`topic del nothing_like_it ${asRoot()}`);
  const refused = new RegExp(
    `^${TIME} +root +- +topic\\.delete +nothing_like_it +404 +topic_not_found `,
    'm',
  );
  await until(async () => refused.test((await terminal.rtm(`audit ${asRoot()}`)).stdout));
  const about = await terminal.rtm(`audit --target ${token} ${asRoot()}`);
  assert.match(about.stdout, new RegExp(`^AT .*\n${TIME} +root +- +client\\.create +${token} +201 .*\n$`));
});

test('audit says what a wrong filter should be', async () => {
  for (const [filter, said, ends] of [
    [
      '--since yesterday',
      /^bad_usage: --since must be a date such as .*, or how long ago, .*, not yesterday\n/,
      1,
    ],
    ['--since 2026-13-01', /^bad_usage: --since must be a date /, 1],
    ['--since 99999d', /^bad_usage: --since must be a date /, 1],
    ['--limit 0', /^bad_usage: --limit must be at least 1, not 0\n/, 1],
    ['--action foo', /^bad_query: action must be one of client\.create, /, 2],
  ] as const) {
    const { stdout, stderr, status } = await terminal.rtm(`audit ${filter} ${asRoot()}`);
    assert.match(stderr, said);
    assert.deepEqual([stdout, status], ['', ends]);
  }
  const asClient = await terminal.rtm(`audit ${(await client('shop')).options}`);
  assert.match(asClient.stderr, /^forbidden: .*the root key/);
});

test('delivery lists batches, shows what one waits for, and tries it at once', async (t) => {
  const { subscriber, topic, publisher, receiver } = await bus.scene(t);
  const { token, secret } = subscriber;
  const own = `-b ${bus.url} -t ${token}:${secret}`;
  const heads = 'ID +SUBSCRIBER +JOIN +STATE +EVENTS +ATTEMPTS +OPENED AT +ENDED AT +REASON\n';
  const list = (more: string) => terminal.rtm(`delivery list --subscriber ${token} ${more} ${asRoot()}`);
  const empty = await terminal.rtm(`delivery list ${own}`);
  assert.match(empty.stdout, new RegExp(`^${heads}$`));
  assert.equal(empty.stderr, 'nothing matches\n');

  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  const taken = new RegExp(`^${heads}([\\w-]{20}) +${token} +- +taken +1 +1 +${TIME} +${TIME} +-\n$`);
  const takenId = await until(async () => taken.exec((await list('')).stdout)?.[1]);
  const record = (await terminal.rtm(`delivery show ${takenId} ${own}`)).stdout;
  assert.match(record, new RegExp(`^id +${takenId}\nsubscriber +${token}\nstate +taken\nreason +-\n`));
  assert.match(record, new RegExp(`\n\nAT +STATUS +MS +REASON +ANSWER\n${TIME} +204 +\\d+ +- +-\n$`));

  receiver.usual = answer.status(503, { 'retry-after': '3600' });
  await publisher.call('POST', `/topics/${topic}`, {
    ...{ type: 'update', url: 'https://shop.example.com/2' },
    data: { long: JSON.rawJSON('12345678901234567890') },
  });
  const retrying = new RegExp(`^${heads}([\\w-]{20}) +${token} +- +retrying +1 +1 +${TIME} +- +HTTP 503\n$`);
  const id = await until(async () => retrying.exec((await list('--state retrying')).stdout)?.[1]);
  const { stdout, stderr, status } = await terminal.rtm(`delivery show ${id} ${asRoot()}`);
  const lines = [
    ...[`id +${id}`, `subscriber +${token}`, 'state +retrying', 'reason +-'],
    ...['waits_for +time', `next_attempt_at +${TIME}`, `opened_at +${TIME}`, `closed_at +${TIME}`],
    ...[`first_attempt_at +${TIME}`, `last_attempt_at +${TIME}`, 'ended_at +-'],
    ...['attempt_count +1', 'event_count +1', 'bytes +\\d+', `topics\\.${topic} +1`, ''],
    ...['AT +STATUS +MS +REASON +ANSWER', `${TIME} +503 +\\d+ +HTTP 503`, ''],
    `${TIME} ${topic} update https://shop.example.com/2 \\{"long":12345678901234567890\\}`,
  ];
  assert.match(stdout, new RegExp(`^${lines.join('\n')}\n$`));
  assert.deepEqual([stderr, status], ['', 0]);
  const json = await terminal.rtm(`delivery show ${id} --json ${own}`);
  assert.match(json.stdout, /"waits_for":"time".*"long":12345678901234567890/);

  const newest = await terminal.rtm(`delivery list --json --limit 1 ${own}`);
  assert.equal(JSON.parse(newest.stdout).length, 1);
  assert.equal(newest.stderr, 'these are the newest 1; --limit shows more\n');
  assert.equal(JSON.parse((await list('--json --since 1h')).stdout).length, 2);
  assert.equal((await list('--json --until 1h')).stdout, '[]\n');

  receiver.usual = answer.status(204);
  assert.deepEqual(await terminal.rtm(`delivery retry ${id} ${own}`), { ...silent, stdout: 'retried 1\n' });
  await until(async () => /^state +taken$/m.test((await terminal.rtm(`delivery show ${id} ${own}`)).stdout));
  const again = await terminal.rtm(`delivery retry ${id} ${own}`);
  assert.match(
    again.stderr,
    /^delivery_not_found: there is no such batch of yours that is queued; if it is a dead letter, retry/,
  );
  assert.equal(again.status, 2);

  receiver.usual = answer.status(503);
  await publisher.publish(topic, { url: 'https://shop.example.com/3' });
  const other = await until(async () => retrying.exec((await list('--state retrying')).stdout)?.[1]);
  assert.deepEqual(await terminal.rtm(`delivery bury ${other} ${own}`), {
    ...silent,
    stdout: `it is a dead letter now; to deliver it after all: rtm dead retry ${other}\n`,
  });
  assert.match((await terminal.rtm(`dead show ${other} ${own}`)).stdout, /^reason +buried$/m);
  assert.equal((await terminal.rtm(`dead purge ${other} ${own}`)).status, 0);
});

test('delivery and dead list those of one join', async (t) => {
  const { publisher, topic } = await bus.scene(t);
  const { token, secret } = publisher;
  const own = `-b ${bus.url} -t ${token}:${secret}`;
  const put = (name: string, then: string) =>
    publisher.call('PUT', `/joins/${name}`, { sources: [{ topic }], by: 'url', then: { topic: then } });
  await Promise.all([put('first', `${topic}_first`), put('second', `${topic}_second`)]);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  const joinsIn = async (line: string) => {
    const { stdout, stderr } = await terminal.rtm(`${line} --json`);
    assert.ok(stderr === '' || stderr === 'nothing matches\n', stderr);
    return JSON.parse(stdout).map(({ join }: { join: string }) => join);
  };
  await until(async () => (await joinsIn(`delivery list --state taken ${own}`)).length === 2);
  assert.deepEqual(await joinsIn(`delivery list --join first ${own}`), ['first']);
  assert.deepEqual(await joinsIn(`delivery list --subscriber ${token} --join second ${asRoot()}`), [
    'second',
  ]);
  assert.deepEqual(await joinsIn(`dead list --join first ${own}`), []);
  for (const list of ['delivery', 'dead']) {
    const { stderr } = await terminal.rtm(`${list} list --join first ${asRoot()}`);
    assert.equal(stderr, 'bad_query: say whose join it is: give --subscriber TOKEN\n');
    const ofEmpty = await terminal.rtm(`${list} list --subscriber= ${asRoot()}`);
    assert.match(ofEmpty.stderr, /^bad_query: subscriber .*/);
  }
  await Promise.all(['first', 'second'].map((name) => publisher.call('DELETE', `/joins/${name}`)));
});

test('delivery says what it cannot show', async () => {
  const { options } = await client('shop');
  for (const [line, said] of [
    [`delivery show nothing ${options}`, /^delivery_not_found: /],
    [`delivery list --subscriber other ${options}`, /^bad_query: .*leave it out/],
    [`delivery list --state done ${options}`, /^bad_query: state must be one of open, ready, /],
  ] as const) {
    const { stdout, stderr, status } = await terminal.rtm(line);
    assert.match(stderr, said);
    assert.deepEqual([stdout, status], ['', 2]);
  }
  const nobody = await terminal.rtm(`delivery list --subscriber nobody ${asRoot()}`);
  const said = 'no client has the token or the name nobody; rtm token list has all\nnothing matches\n';
  assert.deepEqual([nobody.stderr, nobody.status], [said, 0]);
});
