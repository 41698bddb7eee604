import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import axe from 'axe-core';
import { type Browser, launch, type Page } from 'puppeteer-core';
import { chromium } from './chromium.ts';

interface PageOptions {
  width?: number;
  scheme?: 'light' | 'dark';
  javascript?: boolean;
}

/** A headless browser for the tests of a file. */
export class TestBrowser {
  #browser: Browser | undefined;

  static forTests(): TestBrowser {
    const browser = new TestBrowser();
    before(() => browser.#open());
    after(() => browser.#browser?.close());
    return browser;
  }

  async #open(): Promise<void> {
    const executablePath = chromium();
    if (executablePath === undefined)
      throw new Error('no browser: install Chromium, or name one by CHROMIUM');
    this.#browser = await launch({
      executablePath,
      // Chromium refuses to run as root with its sandbox; the tests show it pages of our own only.
      args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
    });
  }

  /** Opens a page with cookies of its own. */
  async page({ width = 1280, scheme = 'light', javascript = true }: PageOptions = {}): Promise<TestPage> {
    if (!this.#browser) throw new Error('the tests have not begun');
    const context = await this.#browser.createBrowserContext();
    const page = await context.newPage();
    await page.setViewport({ width, height: 900 });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    await page.setJavaScriptEnabled(javascript);
    return new TestPage(page);
  }
}

/** Complaints of a browser that are no fault of the page: it loads the answer to a wrong login, say. */
const EXPECTED = /the server responded with a status of 4\d\d/;

/** A page, with what the browser complained of: errors of scripts and violations of the content policy. */
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

  /** Logs in, and shows the page at `path` of the console. */
  async login(url: string, { user, password, path = '/console' }: Login): Promise<void> {
    await this.page.goto(`${url}/console/login?to=${encodeURIComponent(path)}`);
    await this.page.type('[name=user]', user);
    await this.page.type('[name=password]', password);
    await this.submit('form.login button');
  }

  /** Clicks what leads to another page, and waits until that is there. */
  async submit(selector: string): Promise<void> {
    await Promise.all([this.page.waitForNavigation(), this.page.click(selector)]);
  }

  text(selector: string): Promise<string> {
    return this.page.$eval(selector, ({ textContent }) => (textContent ?? '').replace(/\s+/g, ' ').trim());
  }

  /**
   * Nothing was violated, everything is accessible (axe), and nothing is wider than the window. `rules` of axe: all by default; a
   * page whose other scheme was judged by all needs only the rules about colours.
   */
  async assertSound(what = 'the page', rules?: readonly string[]): Promise<void> {
    assert.deepEqual(this.complaints, [], what);
    // Not by a script element, which the content policy would refuse.
    await this.page.evaluate(axe.source);
    const options = { resultTypes: ['violations'], ...(rules && { runOnly: rules }) };
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

export interface Login {
  user: string;
  password: string;
  path?: string;
}
