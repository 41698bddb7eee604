import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VIEWER_KEY } from '../../../harness/processes/bus_environment.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus } from './shared_bus.ts';
import { silent, terminal, write } from './shared_terminal.ts';

test('join puts, lists, shows and removes', async (t) => {
  const { topic, publisher, receiver } = await bus.scene(t);
  const { token, secret } = publisher;
  const options = `-b ${bus.url} -t ${token}:${secret}`;
  const [paid, packed] = [`${topic}_paid`, `${topic}_packed`];
  const sources = [{ topic: paid }, { topic: packed, count: 2 }];
  const rules = JSON.stringify({ sources, by: 'data.order', then: { topic } });
  write('rules.json', rules);
  const put = ['join', 'put', 'order', rules, ...options.split(' ')];
  assert.deepEqual(await terminal.rtm(put), { ...silent, stderr: 'made the join order\n' });
  const again = await terminal.rtm(`join put order - ${options}`, { stdin: rules });
  assert.deepEqual(again, { ...silent, stderr: 'the join order is now as given\n' });
  const file = `@${terminal.folder}/rules.json`;
  const answer = JSON.parse((await terminal.rtm(`join put order ${file} --json ${options}`)).stdout);
  assert.deepEqual([answer.name, answer.by], ['order', 'data.order']);

  const list = await terminal.rtm(`join list ${options}`);
  const heads = 'NAME  CLIENT  SOURCES  BY  THEN  OPEN  COMPLETED  EXPIRED  UNKEYED  QUEUED  DEAD  DROPPED';
  assert.match(list.stdout, new RegExp(`^${heads.replaceAll('  ', ' +')}\n`));
  const row = `order ${token} ${paid},${packed}\\*2 data.order ${topic} 0 0 0 0 0 0 0`;
  assert.match(list.stdout, new RegExp(`^${row.replaceAll(' ', ' +')}$`, 'm'));
  assert.match((await terminal.rtm(`join list ${asRoot()}`)).stdout, new RegExp(`^order +${token} `, 'm'));

  const publish = (source: string, data: object) =>
    publisher.call('POST', `/topics/${source}`, { type: 'noop', url: 'https://shop.example.com/7', data });
  const show = () => terminal.rtm(`join show order ${options}`);
  await publish(paid, { ordr: 7 });
  await until(async () => /^unkeyed +1$/m.test((await show()).stdout));
  const note = 'no event of its sources has had a key so far: is data.order what they have in common?\n';
  assert.equal((await show()).stderr, note);

  await publish(paid, { order: 7 });
  await until(async () => /^open +1$/m.test((await show()).stdout));
  const shown = await terminal.rtm(`join show order --client ${token} ${asRoot()}`);
  assert.deepEqual([shown.stderr, shown.status], ['', 0]);
  assert.match(shown.stdout, /^then\.topic +\w+$/m);
  assert.match(shown.stdout, /^events\.queued +0$/m);
  assert.match(shown.stdout, /^KEY +SINCE +EXPIRES AT +COUNTS +EVENTS$/m);
  assert.match(shown.stdout, /^7 +20\d\d-\S+Z +20\d\d-\S+Z +\{"\w+_paid":1,"\w+_packed":0\} +\S{16}$/m);
  await publish(packed, { order: 7 });
  await publish(packed, { order: 7 });
  await until(() => receiver.events.length === 1);

  const [ofNobody, ofViewer, refused] = await Promise.all([
    terminal.rtm(`join show order ${asRoot()}`),
    terminal.rtm(`join show order -b ${bus.url} -t ${VIEWER_KEY}`),
    terminal.rtm(`join put order {} ${options}`),
  ]);
  assert.equal(ofNobody.stderr, 'bad_query: say whose join it is: give --client TOKEN\n');
  assert.equal(ofViewer.stderr, ofNobody.stderr);
  assert.match(refused.stderr, /^bad_join: sources must be /);
  const wrong = await terminal.rtm(`join put order {a ${options}`);
  assert.match(wrong.stderr, /^bad_usage: The second argument is not JSON: /);
  await publish(paid, { order: 8 });
  await until(async () => /^open +1$/m.test((await show()).stdout));
  const removed = await terminal.rtm(`join del order ${options}`);
  assert.deepEqual(removed, { ...silent, stderr: 'removed the join order, which had 1 open key\n' });
  assert.match((await terminal.rtm(`join show order ${options}`)).stderr, /^join_not_found: /);
});
