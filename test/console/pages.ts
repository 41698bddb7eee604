import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { TestPage } from '../../harness/browser/browser.ts';
import { root as repository } from '../../harness/processes/command.ts';
import { until } from '../../harness/until.ts';
import { as, browser, bus, HOSTILE, htmlFor, letterId, PATHS, root, scene, send } from './visits.ts';

/** Returns the text at the foot of the page, which the style sheet shows while a part could not be refreshed. */
const foot = ({ page }: TestPage) =>
  page.evaluate(`getComputedStyle(document.querySelector('main'), '::after').content`) as Promise<string>;

describe('each page', () => {
  test('is sound, on a narrow dark screen and on a wide light one', async () => {
    const narrow = { width: 360, scheme: 'dark' as const };
    const wide = { width: 1280, scheme: 'light' as const };
    const visit = await as(root);
    const { publisher, subscriber } = scene;
    const more = [
      `/console/triggers/nightly?client=${publisher.token}`,
      `/console/joins/ready?client=${subscriber.token}`,
      `/console/deliveries/${await letterId()}`,
      `/console/subscribers/${scene.subscriber.token}`,
      `/console/topics/${scene.topic}`,
    ];
    for (const path of [...PATHS, ...more]) {
      await visit.show(narrow);
      const response = await visit.page.goto(bus.url + path);
      assert.equal(response?.status(), 200, path);
      await visit.assertSound(`${path}, narrow and dark`);
      await visit.show(wide);
      await visit.assertSound(`${path}, wide and light`, ['color-contrast']);
    }
  });

  test('fits a narrow screen with the longest names, and a wide one with all columns', async (t) => {
    const subscriber = await bus.client('s'.repeat(42));
    const [paid, packed, name] = ['p'.repeat(64), 'q'.repeat(64), 'n'.repeat(50)];
    const { callback } = await bus.receiver(t);
    const topics = [paid, packed];
    await subscriber.call('POST', '/subscription', { topics, callback, uuid: 'me', timeout: 500 });
    const [source, then] = [{ topic: packed, count: 2 }, { topic: 'z'.repeat(64) }];
    await subscriber.call('PUT', `/joins/${name}`, { sources: [{ topic: paid }, source], by: 'url', then });
    await subscriber.call('PUT', `/triggers/${name}`, {
      ...{ topic: paid, schedule: { cron: '0 3 * * *', timezone: 'Europe/London' } },
      event: { type: 'noop', url: 'https://shop.example.com/report' },
    });
    await subscriber.publish(paid, { url: `https://shop.example.com/${'k'.repeat(200)}` });
    let batch: { id: string } | undefined;
    await until(async () => {
      const path = `/deliveries?subscriber=${subscriber.token}`;
      [batch] = (await bus.root.call('GET', path)) as { id: string }[];
      return batch;
    });
    const visit = await as(root, '/console', { width: 360 });
    const client = `client=${subscriber.token}`;
    for (const path of [
      ...PATHS,
      ...[`/console/topics/${paid}`, `/console/subscribers/${subscriber.token}`],
      ...[`/console/joins/${name}?${client}`, `/console/triggers/${name}?${client}`],
      `/console/deliveries/${batch?.id}`,
    ]) {
      assert.equal((await visit.page.goto(bus.url + path))?.status(), 200, path);
      await visit.page.evaluate(`for (const each of document.querySelectorAll('details')) each.open = true`);
      const overflow = await visit.page.evaluate('document.documentElement.scrollWidth - innerWidth');
      assert.ok(Number(overflow) <= 0, `${path} is ${overflow} pixels too wide`);
    }
    await visit.show({ width: 1440, scheme: 'light' });
    for (const path of ['subscribers', 'topics', 'clients', `joins/${name}?${client}`]) {
      await visit.page.goto(`${bus.url}/console/${path}`);
      const hidden = await visit.page.$eval('.scroll', (each) => each.scrollWidth - each.clientWidth);
      assert.ok(hidden <= 0, `${path} hides ${hidden} pixels of its table on a wide screen`);
    }
  });

  test('leaves no figure alone in a row, and breaks no exact time', async () => {
    const visit = await as(root, '/console', { width: 1024 });
    const tops = await visit.page.$$eval('.figures > div', (all) => all.map(({ offsetTop }) => offsetTop));
    assert.equal(tops.length, 6);
    for (const top of tops) assert.equal(tops.filter((each) => each === top).length, 3);
    await visit.show({ width: 390, scheme: 'light' });
    await visit.page.goto(`${bus.url}/console/deliveries/${await letterId()}`);
    const lines = `Array.from(document.querySelectorAll('.steps li'), (step) => {
      const text = document.createTreeWalker(step.querySelector('.none'), NodeFilter.SHOW_TEXT).nextNode();
      const range = document.createRange();
      range.setStart(text, 0);
      range.setEnd(text, '2026-11-23T04:05:06.789Z'.length);
      return range.getClientRects().length;
    })`;
    for (const count of (await visit.page.evaluate(lines)) as number[]) assert.equal(count, 1);
  });

  test('is told apart in the tabs of a browser, and tells times with their zone', async () => {
    const { publisher, subscriber, topic } = scene;
    for (const [path, title] of [
      [`topics/${topic}`, `Topic ${topic}`],
      [`subscribers/${subscriber.token}`, `Subscriber ${subscriber.token}`],
      [`triggers/nightly?client=${publisher.token}`, 'Trigger nightly'],
      [`joins/ready?client=${subscriber.token}`, 'Join ready'],
    ]) {
      const shown = /<title>(.*)<\/title>/.exec(await htmlFor(root, `/console/${path}`))?.[1];
      assert.equal(shown, `${title} · Routemaster`);
    }
    const visit = await as(root);
    await visit.page.emulateTimezone('Asia/Tokyo');
    await visit.page.goto(`${bus.url}/console/deliveries/${await letterId()}`);
    assert.match(await visit.page.$eval('time', (time) => time.title), /GMT\+9$/);
    assert.match(await visit.text('.steps li:first-child'), /\d{4}-\d\d-\d\dT[0-9:.]+Z/);
    await visit.page.emulateTimezone();
  });

  test('has fields that one can see, and their placeholders', async () => {
    const visit = await as(root, '/console/clients');
    for (const scheme of ['light', 'dark'] as const) {
      await visit.show({ width: 1280, scheme });
      const contrasts = await visit.page.evaluate(`{
        const light = (colour) => {
          const [red, green, blue] = colour.match(/[0-9]+/g).map((each) => {
            const part = each / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
        };
        const contrast = (...colours) => {
          const [less, more] = colours.map(light).sort((one, other) => one - other);
          return more / less;
        };
        const field = document.querySelector('.card [placeholder]');
        const { borderColor, backgroundColor } = getComputedStyle(field);
        const { color } = getComputedStyle(field, '::placeholder');
        const around = getComputedStyle(field.closest('.card')).backgroundColor;
        [contrast(borderColor, around), contrast(borderColor, backgroundColor), contrast(color, backgroundColor)];
      }`);
      const [around, inside, text] = contrasts as [number, number, number];
      assert.ok(around >= 3 && inside >= 3 && text >= 4.5, `${scheme}: ${contrasts}`);
    }
  });

  test('names the release of the bus at its foot, but only after a login', async () => {
    const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'));
    const pages = [
      ...PATHS.map((path) => htmlFor(root, path)),
      htmlFor(root, '/console/topics/unknown', 404),
    ];
    for (const page of await Promise.all(pages))
      assert.equal(/<footer>(.*)<\/footer>/.exec(page)?.[1], `Routemaster ${version}`);
    const stranger = await send('/console/login', {});
    assert.doesNotMatch(await stranger.text(), /<footer/);
  });

  test('of the API wraps its lines to paste and its tables', async () => {
    const visit = await browser.page();
    await visit.page.goto(`${bus.url}/docs`);
    for (const width of [1280, 640, 360]) {
      await visit.show({ width, scheme: 'light' });
      // The page must not be wider than the window, and no part of it may have to be scrolled without a keyboard.
      await visit.assertSound(`at ${width} pixels`, ['scrollable-region-focusable']);
    }
  });

  test('of the API keeps its contents in sight, beside the calls, on a wide screen', async () => {
    const visit = await browser.page();
    await visit.show({ width: 1280, scheme: 'light' });
    await visit.page.goto(`${bus.url}/docs#getJoins`);
    const [navRight, navTop, callLeft, callTop, isScrolled] = (await visit.page.evaluate(`(() => {
      const of = (selector) => document.querySelector(selector).getBoundingClientRect();
      const [nav, call] = [of('nav'), of('#getJoins')];
      return [nav.right, nav.top, call.left, call.top, scrollY > 2000];
    })()`)) as [number, number, number, number, boolean];
    assert.ok(isScrolled && navRight < callLeft, `${navRight} ${callLeft}`);
    assert.ok(Math.abs(navTop) < 50 && Math.abs(callTop) < 50, `${navTop} ${callTop}`);
  });

  test('shows hostile text as text', async () => {
    const visit = await as(root, `/console/deliveries/${await letterId()}`);
    await visit.page.click('.event summary');
    assert.match(await visit.text('.event pre'), /<script>alert\(1\)<\/script>/);
    // The callback has answered the same, with a megabyte behind it. The mark that turns text around is not shown.
    assert.match(
      await visit.text('.steps pre'),
      /^<script>alert\(1\)<\/script>"><img src=x onerror=alert\(2\)>\ufffd/,
    );
    await visit.assertSound();
  });

  test('shows a hostile client or topic as text, which only another program can have stored', async () => {
    const { redis, keys } = bus.store;
    await redis.hset(keys.api_tokens(), HOSTILE, HOSTILE);
    await redis.sadd(keys.topics(), HOSTILE);
    await redis.hset(keys.topic(HOSTILE), 'publisher', HOSTILE);
    try {
      for (const path of ['/console/clients', '/console/topics']) {
        const visit = await as(root, path);
        const text = await visit.text('main');
        assert.ok(text.includes(HOSTILE.replace('\u202e', '\ufffd')), `${path}: ${text}`);
        await visit.assertSound(path);
      }
    } finally {
      await redis.hdel(keys.api_tokens(), HOSTILE);
      await redis.srem(keys.topics(), HOSTILE);
      await redis.del(keys.topic(HOSTILE));
    }
  });

  test('is refreshed while somebody looks, and keeps what the reader does', async () => {
    const visit = await as(root, '/console/topics');
    const before = await visit.text('main');
    await bus
      .client('another')
      .then((client) => client.publish('zzz_new_topic', { url: 'https://shop.example.com/2' }));
    await visit.until(`document.querySelector('main').textContent.includes('zzz_new_topic')`);
    assert.ok(!before.includes('zzz_new_topic'));
    assert.deepEqual(visit.complaints, []);
  });

  test('keeps what it shows when that was removed, says so, and goes on when it is there again', async () => {
    const client = await bus.client('coming_and_going');
    const publish = () => client.publish('comes_and_goes', { url: 'https://shop.example.com/2' });
    await publish();
    const visit = await as(root, '/console/topics/comes_and_goes');
    const [title, before] = [await visit.page.title(), await visit.text('#topic')];
    await client.call('DELETE', '/topics/comes_and_goes');
    await visit.page.waitForSelector('.stale');
    assert.match(await foot(visit), /is gone: somebody has removed it/);
    assert.deepEqual([await visit.page.title(), await visit.text('#topic')], [title, before]);
    await publish();
    await visit.page.waitForSelector('#topic:not(.stale, .gone)');
  });

  test('says that a part could not be refreshed while others are', async () => {
    const topic = 'half_refreshed';
    const client = await bus.client('of_half');
    const publish = () => client.publish(topic, { url: 'https://shop.example.com/3' });
    await publish();
    const visit = await as(root, `/console/topics/${topic}`);
    await visit.page.evaluate(`{
      const send = fetch;
      const refused = Promise.resolve(new Response('', { status: 503 }));
      window.fetch = (url, how) => (String(url).includes('part=plots') ? refused : send(url, how));
      htmx.trigger('#plots', 'refresh');
    }`);
    await visit.page.waitForSelector('#plots.stale');
    const before = await visit.text('#topic');
    await publish();
    await until(async () => (await visit.text('#topic')) !== before);
    assert.ok(await visit.page.$('#topic:not(.stale)'));
    assert.match(await foot(visit), /could not be refreshed, and shows how it was before: Redis is away/);
  });

  test('is refreshed less often after a refresh was refused for the rate of calls, and says so', async () => {
    const visit = await as(root, '/console/topics');
    await visit.page.evaluate(`{
      const send = fetch;
      const statuses = [429];
      window.askedAt = [];
      window.fetch = (...asked) => {
        window.askedAt.push(performance.now());
        const status = statuses.shift();
        return status ? Promise.resolve(new Response('', { status })) : send(...asked);
      };
    }`);
    await visit.page.waitForSelector('html.slowed');
    assert.match(await foot(visit), /refreshed less often/);
    assert.equal(await visit.page.$('.stale'), null);
    await visit.until('window.askedAt.length >= 2');
    const [first = 0, second = 0] = (await visit.page.evaluate('window.askedAt')) as number[];
    assert.ok(second - first > 3000, `asked again after ${second - first} ms`);
    await visit.page.evaluate(`(async () => {
      for (let n = 0; n < 20; n++)
        await new Promise((resolve) => {
          document.addEventListener('htmx:finally:request', resolve, { once: true });
          htmx.trigger('#topics', 'refresh');
        });
    })()`);
    assert.equal(await visit.page.$('html.slowed'), null);
    assert.equal(await foot(visit), 'none');
  });

  test('keeps what the reader does while a refresh is on its way', async () => {
    const visit = await as(root, '/console/topics');
    const whileOnItsWay = async (selector: string) => {
      await visit.page.evaluate(`{
        const send = fetch;
        window.fetch = async (...asked) => {
          window.isOnItsWay = true;
          await new Promise((resolve) => (window.answer = resolve));
          return send(...asked);
        };
      }`);
      await visit.until('window.isOnItsWay');
      await visit.page.click(selector);
      await visit.page.evaluate(`new Promise((resolve) => {
        document.addEventListener('htmx:finally:request', resolve);
        window.answer();
      })`);
    };
    await whileOnItsWay('#topics summary');
    assert.ok(await visit.page.$('#topics details[open]'));
    await visit.page.goto(`${bus.url}/console/tail`);
    await whileOnItsWay('[data-pause]');
    assert.ok(await visit.page.$('#tail[data-paused]'));
    assert.equal(await visit.text('[data-pause]'), 'Go on');
  });

  test('does not move a row of a list away from the focus of a keyboard', async () => {
    const visit = await as(root, '/console/topics');
    const focused = () => visit.page.evaluate('document.activeElement.textContent');
    const isInList = () => visit.page.evaluate(`document.activeElement.matches('tbody *')`);
    do await visit.page.keyboard.press('Tab');
    while (!(await isInList()));
    const topic = await focused();
    const client = await bus.client('first');
    await client.publish('aaa_first_topic', { url: 'https://shop.example.com/4' });
    await visit.page.evaluate(`new Promise((resolve) => {
      document.addEventListener('htmx:finally:request', resolve);
      htmx.trigger('#topics', 'refresh');
    })`);
    assert.equal(await focused(), topic);
    await visit.page.evaluate('document.activeElement.blur()');
    await visit.until(`document.querySelector('main').textContent.includes('aaa_first_topic')`);
  });

  test('asks for nothing while its tab is hidden', async () => {
    const [hidden, visible] = [await as(root, '/console'), await as(root, '/console')];
    await hidden.page.evaluate(`Object.defineProperty(document, 'hidden', { value: true })`);
    const asked = { hidden: 0, visible: 0 };
    hidden.page.on('request', () => asked.hidden++);
    visible.page.on('request', () => asked.visible++);
    // The hidden tab was opened first, and would have asked as often.
    await until(() => asked.visible >= 2);
    assert.equal(asked.hidden, 0);
  });

  test('works without JavaScript, such as to sort and filter subscribers', async () => {
    const visit = await as(root, '/console/topics', { javascript: false });
    assert.match(await visit.text('main'), new RegExp(scene.topic));
    await visit.page.goto(`${bus.url}/console/subscribers`);
    await visit.submit('th a[href*="sort=oldest"]');
    assert.equal(await visit.text('th a[aria-current]'), 'Oldest');
    await visit.page.type('[name=name]', 'nobody_has_this_name');
    await visit.submit('.filter button');
    assert.match(visit.page.url(), /sort=oldest&name=nobody/);
    assert.match(await visit.text('main'), /No subscriber is like this/);
    for (const [list, known] of [
      ['topics', scene.topic],
      ['clients', scene.subscriber.token],
    ] as const) {
      await visit.page.goto(`${bus.url}/console/${list}?name=${known.slice(1)}`);
      assert.match(await visit.text('tbody'), new RegExp(`^.*${known}`));
      assert.equal((await visit.page.$$('tbody tr')).length, 1, list);
      await visit.page.type('[name=name]', 'nothing_has_this_name');
      await visit.submit('.filter button');
      assert.match(await visit.text('main'), /No (topic|client) has a name like this/);
    }
    await visit.page.goto(`${bus.url}/console`);
    const heights = await visit.page.$$eval('.plot', (plots) =>
      plots.map(({ clientHeight }) => clientHeight),
    );
    assert.deepEqual(heights, [0, 0, 0, 0, 0], 'a plot that nothing draws leaves no hole');
    await visit.page.goto(`${bus.url}/console/tail?topic=quiet`);
    const shown = (await visit.page.evaluate('document.body.innerText')) as string;
    assert.match(shown, /No event has come since you began to look\. Reload the page to see new ones\./);
    assert.doesNotMatch(shown, /two seconds|pause/i);
  });
});

describe('plots', () => {
  test('are drawn from the history, and told in words', async () => {
    const plotted = `document.querySelectorAll('figure canvas').length`;
    const visit = await as(root, '/console');
    await visit.until(`${plotted} === 5`);
    await visit.until(`/stored [0-9.]+ MiB/.test(document.querySelector('main').textContent)`);
    await visit.page.goto(`${bus.url}/console/subscribers/${scene.subscriber.token}?range=24h`);
    await visit.until(`${plotted} === 3`);
    const written = [999_960, 999_400].map((value) => `written(${value}, 'events')`);
    assert.deepEqual(await visit.page.evaluate(`[${written}]`), ['1 M', '999 k']);
    assert.equal(await visit.page.evaluate(`written(1_048_576, 'bytes')`), '1 MiB');
    await visit.assertSound();
  });

  test('keep their place when they are refreshed', async () => {
    const visit = await as(root, '/console');
    await visit.page.waitForSelector('figure canvas');
    await visit.page.evaluate(`document.querySelector('figure canvas').dataset.mark = 'same'`);
    await visit.page.evaluate(`document.querySelector('figcaption').textContent = 'old'`);
    await visit.page.evaluate(`htmx.trigger(document.querySelector('#plots'), 'refresh')`);
    await visit.until(`document.querySelector('figcaption').textContent !== 'old'`);
    assert.equal(await visit.page.$eval('figure canvas', ({ dataset }) => dataset.mark), 'same');
  });

  test('show a value whose neighbours are unknown, as a dot', async () => {
    const visit = await as(root, '/console');
    await visit.page.waitForSelector('figure canvas');
    const inked = (values: string) =>
      visit.page.evaluate(`{
        const figure = document.querySelector('figure');
        const lines = [{ name: 'published', values: ${values} }];
        figure.dataset.plot = JSON.stringify({ start: 0, step: 10000, unit: 'events/s', lines });
        drawAnew();
        const ink = colour(figure.querySelector('.plot'), '--accent').match(/[0-9]+/g).join();
        new Promise(requestAnimationFrame).then(() => {
          const { width, height } = figure.querySelector('canvas');
          const { data } = figure.querySelector('canvas').getContext('2d').getImageData(0, 0, width, height);
          const pixels = Array.from({ length: width * height }, (_, index) => data.slice(4 * index, 4 * index + 3));
          return pixels.filter((each) => each.join() === ink).length;
        });
      }`) as Promise<number>;
    assert.equal(await inked('Array(360).fill(null)'), 0);
    assert.ok((await inked('Array(360).fill(null).with(200, 5)')) > 4);
  });

  test('write times as people do', async () => {
    const visit = await as(root, '/console');
    const written = await visit.page.evaluate(
      `[0, 0.0035, 0.9999, 4.5, 59.97, 200, 600, 3599.7, 5400, 108_000].map(writtenTime)`,
    );
    const short = ['0 s', '3.5 ms', '1 s', '4.5 s', '1 min'];
    assert.deepEqual(written, [...short, '3 min 20 s', '10 min', '1 h', '1 h 30 min', '1 d 6 h']);
  });

  test('name the day at midnight', async () => {
    const visit = await as(root, '/console');
    const axis = `[new Date(2026, 10, 23, 18), new Date(2026, 10, 24)].map((each) => clock(each / 1000))`;
    assert.deepEqual(await visit.page.evaluate(axis), ['18:00', 'Nov 24']);
  });
});
