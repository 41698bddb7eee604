import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from 'puppeteer-core';
import { chromium } from './chromium.ts';

/** The pictures of the documents, and the pages that they show. */
const PICTURES = {
  overview: '/console',
  subscribers: '/console/subscribers',
  deliveries: '/console/deliveries',
  clients: '/console/clients',
} as const;
/** The list whose first batch is shown in a picture of its own. */
const RETRYING = '/console/deliveries?state=retrying';

const folder = join(import.meta.dirname, '..', '..', 'docs', 'images');
const [url, rootKey] = process.argv.slice(2);
const executablePath = chromium();
if (!url || !rootKey || !executablePath) {
  console.error(
    'usage: npm run screenshots -- URL ROOT_KEY, of a bus that `bin/start --demo` runs; needs Chromium',
  );
  process.exit(1);
}
mkdirSync(folder, { recursive: true });
const browser = await launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1200, height: 850 });
  await page.goto(`${url}/console/login`);
  await page.type('[name=user]', 'root');
  await page.type('[name=password]', rootKey);
  await Promise.all([page.waitForNavigation(), page.click('form.login button')]);
  const take = (name: string) =>
    page.screenshot({ path: join(folder, `console_${name}.webp`), type: 'webp', quality: 80 });
  for (const [name, path] of Object.entries(PICTURES)) {
    await page.goto(url + path, { waitUntil: 'networkidle0' });
    await take(name);
  }
  await page.goto(url + RETRYING, { waitUntil: 'networkidle0' });
  await Promise.all([page.waitForNavigation({ waitUntil: 'networkidle0' }), page.click('td a')]);
  await take('delivery');
} finally {
  await browser.close();
}
