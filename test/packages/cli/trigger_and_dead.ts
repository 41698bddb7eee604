import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../../harness/http/receiver.ts';
import { VIEWER_KEY } from '../../../harness/processes/bus_environment.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus } from './shared_bus.ts';
import { silent, terminal, write } from './shared_terminal.ts';

test('trigger lists and fires', async (t) => {
  const { topic, publisher, receiver } = await bus.scene(t);
  const { token, secret } = publisher;
  const options = `-b ${bus.url} -t ${token}:${secret}`;
  const event = { type: 'noop', url: 'https://shop.example.com/daily' };
  const put = (name: string, body: object) =>
    publisher.call('PUT', `/triggers/${name}`, { topic, event, ...body });
  await put('daily', { schedule: { cron: '0 9 * * *', timezone: 'Europe/London' } });
  await put('hourly', { schedule: { every: 3_600_000 }, paused: true });
  const at = Date.now() + 3_600_000;
  await put('once', { schedule: { at } });

  const list = await terminal.rtm(`trigger list ${options}`);
  assert.match(list.stdout, /^NAME +CLIENT +TOPIC +SCHEDULE +NEXT AT +FIRED WHEN DUE +MISSED +LAST ERROR\n/);
  assert.match(
    list.stdout,
    new RegExp(`^daily +${token} +${topic} +0 9 \\* \\* \\* Europe/London +\\d.+Z +0 +0 +-$`, 'm'),
  );
  assert.match(list.stdout, /^hourly .+ every 3600000 ms +paused +0 /m);
  const time = new Date(at).toISOString();
  assert.match(list.stdout, new RegExp(`^once .+ at ${time} +${time} +0 `, 'm'));
  assert.match(
    (await terminal.rtm(`trigger list ${asRoot()}`)).stdout,
    new RegExp(`^daily +${token} +`, 'm'),
  );

  const fired = await terminal.rtm(`trigger fire daily ${options}`);
  await until(() => receiver.events.length === 1);
  assert.deepEqual(fired, { ...silent, stdout: `${receiver.events[0]?.id}\n` });
  assert.equal(receiver.urls[0], event.url);
  assert.match((await terminal.rtm(`trigger fire nothing ${options}`)).stderr, /^trigger_not_found: /);
  const ofNobody = await terminal.rtm(`trigger fire daily ${asRoot()}`);
  assert.equal(ofNobody.stderr, 'bad_query: say whose trigger it is: give --client TOKEN\n');
  const byRoot = await terminal.rtm(`trigger fire daily --client ${token} ${asRoot()}`);
  await until(() => receiver.events.length === 2);
  assert.deepEqual(byRoot, { ...silent, stdout: `${receiver.events[1]?.id}\n` });
  // No time was due: what is fired by hand is not counted.
  assert.match((await terminal.rtm(`trigger list ${options}`)).stdout, /^daily .+Z +0 +0 +-$/m);
});

test('trigger puts, shows and removes', async (t) => {
  const { topic, publisher } = await bus.scene(t);
  const { token, secret } = publisher;
  const options = `-b ${bus.url} -t ${token}:${secret}`;
  const at = Date.now() + 3_600_000;
  // A long number of the data keeps its digits.
  const data = '{"n":12345678901234567890,"list":[1]}';
  const event = `{"type":"noop","url":"https://shop.example.com/","data":${data}}`;
  const rules = `{"topic":"${topic}","event":${event},"schedule":{"at":${at}}}`;
  write('trigger.json', rules);
  const put = ['trigger', 'put', 'once', rules, ...options.split(' ')];
  assert.deepEqual(await terminal.rtm(put), { ...silent, stderr: 'made the trigger once\n' });
  const again = await terminal.rtm(`trigger put once - ${options}`, { stdin: rules });
  assert.deepEqual(again, { ...silent, stderr: 'the trigger once is now as given\n' });
  const file = `@${terminal.folder}/trigger.json`;
  const byRoot = await terminal.rtm(`trigger put once ${file} --json --client ${token} ${asRoot()}`);
  assert.deepEqual([JSON.parse(byRoot.stdout).client, byRoot.status], [token, 0]);

  const [own, ofRoot, ofViewer] = await Promise.all([
    terminal.rtm(`trigger show once ${options}`),
    terminal.rtm(`trigger show once --client ${token} ${asRoot()}`),
    terminal.rtm(`trigger show once -b ${bus.url} -t ${VIEWER_KEY}`),
  ]);
  assert.deepEqual(own, ofRoot);
  const time = new Date(at).toISOString();
  for (const line of [`name +once`, `client +${token}`, `schedule.at +${time}`, `next_at +${time}`, 'end +-'])
    assert.match(own.stdout, new RegExp(`^${line}$`, 'm'));
  assert.match(own.stdout, /^start +20\d\d-\S+Z$/m);
  assert.ok(own.stdout.includes(` ${data}\n`), own.stdout);
  assert.equal(ofViewer.stderr, 'bad_query: say whose trigger it is: give --client TOKEN\n');
  const refused = await terminal.rtm(`trigger put once {} ${options}`);
  assert.match(refused.stderr, /^bad_trigger: /);
  const wrong = await terminal.rtm(`trigger put once {a ${options}`);
  assert.match(wrong.stderr, /^bad_usage: The second argument is not JSON: /);
  assert.deepEqual(await terminal.rtm(`trigger del once ${options}`), silent);
  assert.match((await terminal.rtm(`trigger show once ${options}`)).stderr, /^trigger_not_found: /);
});

test('dead lists, shows, retries and purges', async (t) => {
  bus.announceError(/it is a dead letter now/);
  const { subscriber, topic, publisher, receiver } = await bus.scene(t);
  const { callback } = receiver;
  const subscription = { topics: [topic], callback, uuid: 'me', max: 1, timeout: 0, max_attempts: 1 };
  await subscriber.call('POST', '/subscription', subscription);
  receiver.usual = answer.status(500);
  // JSON does not escape these. A terminal may obey U+009B as it obeys Escape and a bracket, and U+202E turns text.
  const event = {
    type: 'noop',
    url: 'https://shop.example.com/1',
    data: { note: '\u009b2J\u202e', long: JSON.rawJSON('12345678901234567890') },
  };
  await publisher.call('POST', `/topics/${topic}`, event);
  const list = () => terminal.rtm(`dead list --json --subscriber ${subscriber.token} ${asRoot()}`);
  await until(async () => JSON.parse((await list()).stdout).length === 1);
  const [{ id }] = JSON.parse((await list()).stdout);

  const shown = (await terminal.rtm(`dead show ${id} ${asRoot()}`)).stdout;
  const time = '20\\d\\d-\\d\\d-\\d\\dT[\\d:.]+Z';
  for (const line of [
    `created_at +${time}`,
    `died_at +${time}`,
    'AT +STATUS +MS +REASON +ANSWER',
    `${time} +500 +\\d+ +HTTP 500.*`,
    `${time} ${topic} noop https://shop.example.com/1 \\{"note":"\\\\u009b2J\\\\u202e","long":12345678901234567890\\}`,
  ])
    assert.match(shown, new RegExp(`^${line}$`, 'm'));
  const { stdout } = await terminal.rtm(`dead show ${id} --json ${asRoot()}`);
  assert.match(stdout, /"\\u009b2J\\u202e","long":12345678901234567890\}/);
  assert.equal(JSON.parse(stdout).events[0].data.note, '\u009b2J\u202e');
  receiver.usual = answer.status(204);
  assert.deepEqual(await terminal.rtm(`dead retry ${id} ${asRoot()}`), {
    ...silent,
    stdout: 'retried 1\n',
  });
  await until(() => receiver.events.length === 1);
  assert.equal((await terminal.rtm(`dead purge ${asRoot()}`)).status, 1);
  receiver.usual = answer.status(500);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/2' });
  await until(async () => JSON.parse((await list()).stdout).length === 1);
  const [second] = JSON.parse((await list()).stdout);
  await bus.store.redis.lset(bus.store.keys.dead_letter(second.id), 3, Buffer.from([0x92, 0xc1, 0xff]));
  const undecodable = (await terminal.rtm(`dead show ${second.id} ${asRoot()}`)).stdout;
  assert.match(undecodable, /^\{"undecodable":"ksH\/"\}$/m);
  const one = await terminal.rtm(`dead purge ${second.id} ${asRoot()}`);
  assert.deepEqual(one, { ...silent, stdout: 'purged 1\n' });
  const purged = await terminal.rtm(`dead purge --all --subscriber ${subscriber.token} ${asRoot()}`);
  assert.deepEqual(purged, { ...silent, stdout: 'purged 0\n' });
  for (const each of ['retry', 'purge']) {
    const { stdout } = await terminal.rtm(`dead ${each} --help`);
    assert.match(stdout, /^ {4}\w+ a dead letter.*, or all; root must say whose by --subscriber$/m);
    assert.deepEqual(await terminal.rtm(`dead ${each} --all ${asRoot()}`), {
      ...silent,
      stderr: 'bad_query: root must say whose dead letters: give --subscriber TOKEN\n',
      status: 2,
    });
  }
});
