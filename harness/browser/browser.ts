import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { afterEach } from 'node:test';
import type axe from 'axe-core';
import { type Browser, type CookieData, launch, type Page } from 'puppeteer-core';
import { aroundTests } from '../around_tests.ts';
import { chromium } from './chromium.ts';

/** The script of axe. Its small form takes less CPU in each page than `axe.source`, which is twice as long. */
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Screen {
  width: number;
  scheme: 'light' | 'dark';
}

interface PageOptions extends Partial<Screen> {
  javascript?: boolean;
}

/** A headless browser for the tests of a file. */
export class TestBrowser {
  #browser: Browser | undefined;
  /** Pages that a test has opened, and pages that wait for the next test. */
  #open: Page[] = [];
  #idle: Page[] = [];

  static forTests(): TestBrowser {
    const browser = new TestBrowser();
    aroundTests(
      () => browser.#start(),
      () => browser.#browser?.close(),
    );
    afterEach(() => browser.#emptyPages());
    return browser;
  }

  async #start(): Promise<void> {
    const executablePath = chromium();
    if (executablePath === undefined)
      throw new Error('no browser: install Chromium, or name one by CHROMIUM');
    this.#browser = await launch({
      executablePath,
      // Chromium refuses to run as root with its sandbox. It needs no sandbox here, because it shows only pages of the
      // bus.
      args: [
        ...['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
        // By default, Chromium starts a spare renderer for every page, and hardly ever uses it. It also makes new
        // objects for the document of each page, even of a page of the same site, which takes a fifth of the CPU.
        '--disable-features=SpareRendererForSitePerProcess,RenderDocument',
        // No test goes back to an earlier page. With this cache, each page gets a new renderer, which takes as much CPU
        // as the page itself.
        '--disable-back-forward-cache',
        // These two options together save a seventh of the CPU. Without a process of its own for the GPU, nothing is
        // lost, because that process draws nothing here. And of scripts such as axe, only the functions that run are
        // compiled.
        ...['--in-process-gpu', '--js-flags=--max-lazy'],
        // The browser treats this name of this machine like an address in a network, not like `localhost`.
        '--host-resolver-rules=MAP bus.test 127.0.0.1',
      ],
    });
  }

  /**
   * Empties the pages of a test, because pages refresh themselves: the pages of past tests would take more CPU than the
   * test that runs. The next test uses these pages again, because opening a page takes three times as much CPU as
   * showing another one in it.
   */
  async #emptyPages(): Promise<void> {
    const pages = this.#open.splice(0);
    await Promise.all(pages.map(empty));
    this.#idle.push(...pages);
  }

  /** Opens a page with cookies of its own, at first none. */
  async page({ width = 1280, scheme = 'light', javascript = true }: PageOptions = {}): Promise<TestPage> {
    if (!this.#browser) throw new Error('the tests have not begun');
    const own = this.#idle.pop() ?? (await (await this.#browser.createBrowserContext()).newPage());
    this.#open.push(own);
    const page = new TestPage(own);
    await page.show({ width, scheme });
    await own.setJavaScriptEnabled(javascript);
    return page;
  }
}

/** Resets a page as if it had just been opened, except for its URL. */
async function empty(page: Page): Promise<void> {
  for (const event of ['pageerror', 'console', 'request'] as const) page.removeAllListeners(event);
  // An answer of the same bus makes the browser keep the renderer. With `about:blank` instead, two of nine runs found a
  // page closed.
  if (page.url() !== 'about:blank') await page.goto(new URL('/health', page.url()).href);
  const context = page.browserContext();
  await context.deleteCookie(...(await context.cookies()));
}

/**
 * Complaints of the browser that are no fault of the page: the 4xx answer to a wrong login, for example, and a refresh
 * that is cut off because the test goes to the next page. (A refresh that the content policy forbids has a complaint of
 * its own.)
 */
const EXPECTED = /the server responded with a status of 4\d\d|^htmx: htmx:error: Failed to fetch/;

/** A page, and the complaints of the browser: errors of scripts and violations of the content policy. */
export class TestPage {
  readonly page: Page;
  readonly complaints: string[] = [];

  constructor(page: Page) {
    this.page = page;
    page.on('pageerror', (error) => this.complaints.push(`error: ${String(error)}`));
    page.on('console', (message) => {
      if (message.type() === 'error' && !EXPECTED.test(message.text())) this.complaints.push(message.text());
    });
  }

  /** Shows the same page on another screen. */
  async show({ width, scheme }: Screen): Promise<void> {
    await this.page.setViewport({ width, height: 900 });
    await this.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  }

  /** Shows a page with the cookie of a session. */
  async resume(url: string, cookie: CookieData): Promise<void> {
    await this.page.browserContext().setCookie(cookie);
    await this.page.goto(url);
  }

  /** Logs in by the form, and shows the page at `path` of the console. */
  async login(url: string, { user, password, path = '/console' }: Login): Promise<void> {
    await this.page.goto(`${url}/console/login?to=${encodeURIComponent(path)}`);
    await this.page.type('[name=user]', user);
    await this.page.type('[name=password]', password);
    await this.submit('form.login button');
  }

  /** Clicks an element that leads to another page, and waits until that page has loaded. */
  async submit(selector: string): Promise<void> {
    await Promise.all([this.page.waitForNavigation(), this.page.click(selector)]);
  }

  /**
   * Waits until an expression is true in the page. Looks 20 times a second: puppeteer would look at each frame, and
   * each frame would be drawn, which takes a tenth of a core.
   */
  async until(expression: string): Promise<void> {
    await this.page.waitForFunction(expression, { polling: 50 });
  }

  text(selector: string): Promise<string> {
    return this.page.$eval(selector, ({ textContent }) => (textContent ?? '').replace(/\s+/g, ' ').trim());
  }

  /**
   * Throws if the browser complained, if the page is not accessible (axe), or if it is wider than the window. `rules`
   * names the rules of axe, by default all. A page that has passed all rules in its other colour scheme needs only
   * those about colours.
   */
  async assertSound(what = 'the page', rules?: readonly string[]): Promise<void> {
    assert.deepEqual(this.complaints, [], what);
    // axe is evaluated, as the content policy would refuse a script element.
    if (!(await this.page.evaluate(`'axe' in window`))) await this.page.evaluate(AXE);
    // Only rules about rotated screens and media need the files that axe would load again.
    const options = { preload: false, resultTypes: ['violations'], ...(rules && { runOnly: rules }) };
    const { violations } = (await this.page.evaluate(
      `axe.run(${JSON.stringify(options)})`,
    )) as axe.AxeResults;
    const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    const described = grave.map(
      ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`,
    );
    assert.deepEqual(described, [], what);
    const overflow = await this.page.evaluate('document.documentElement.scrollWidth - innerWidth');
    assert.ok(Number(overflow) <= 0, `${what} is ${overflow} pixels wider than the window`);
  }
}

interface Login {
  user: string;
  password: string;
  path?: string;
}
