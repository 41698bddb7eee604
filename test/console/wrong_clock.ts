import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../harness/http/receiver.ts';
import { faketimeLibrary, wrongClock } from '../../harness/processes/faketime_library.ts';
import { until } from '../../harness/until.ts';
import { bus, login, root } from './visits.ts';

const library = faketimeLibrary();

for (const offset of ['+40d', '-40d'])
  test(`pages tell times by the clock of Redis if that of web is off: ${offset}`, {
    skip: library === undefined && 'libfaketime is not installed',
  }, async (t) => {
    const web = await bus.start('web', wrongClock(library ?? '', offset));
    t.after(() => web.stop());
    assert.ok(web.log.some(({ msg }) => /^The clocks of this host and of Redis disagree: run NTP/.test(msg)));
    // The subscriber fails, so that there are attempts, and an oldest event.
    const { publisher, subscriber, topic, receiver } = await bus.scene(t);
    receiver.answers(...Array(50).fill(answer.status(500)));
    await publisher.publish(topic, { url: 'https://shop.example.com/1' });
    await publisher.publish(topic, { url: 'https://shop.example.com/2', delay: 3_600_000 });
    const event = { type: 'noop', url: 'https://shop.example.com/3' };
    await publisher.call('PUT', '/triggers/often', { topic, event, schedule: { every: 3_600_000 } });
    const sources = [{ topic }, { topic: `${topic}_too` }];
    await subscriber.call('PUT', '/joins/both', { sources, by: 'url', then: { topic: `${topic}_both` } });
    await until(async () => (await subscriber.report()).last_attempted_at !== null);
    await subscriber.call('POST', '/subscriber/pause');
    const [{ id }] = (await subscriber.call('GET', '/deliveries?limit=1')) as [{ id: string }];
    const lists = [
      'subscribers',
      'deliveries',
      'topics',
      'triggers',
      'joins',
      'jobs',
      'clients',
      'audit',
      'tail',
    ];
    const pages = [
      ...['', ...lists.map((each) => `/${each}`), `/subscribers/${subscriber.token}`, `/topics/${topic}`],
      ...[`/deliveries/${id}`, `/triggers/often?client=${publisher.token}`],
      `/joins/both?client=${subscriber.token}`,
    ];
    const cookies = {
      root: await login(root.user, root.password),
      client: await login(subscriber.token, subscriber.secret),
    };
    const get = async (path: string, cookie: string) =>
      (await fetch(`${bus.url}/console${path}`, { headers: { cookie } })).text();
    const assertRight = (page: string, path: string) =>
      assert.equal(page.match(/[^>]*\b(39|40|41) d\b[^<]*/g), null, path);
    for (const path of pages) assertRight(await get(path, cookies.root), path);
    // The tail is watched by now.
    await publisher.publish(topic, { url: 'https://shop.example.com/4' });
    const tail = await until(async () => {
      const page = await get('/tail', cookies.root);
      return page.includes('https://shop.example.com/4') ? page : undefined;
    });
    assertRight(tail, '/tail');
    const overview = await get('', cookies.client);
    assert.match(overview, /Your subscriber is paused/);
    assert.doesNotMatch(overview, /oldest event waits/);
  });
