import { after, before } from 'node:test';

/**
 * Calls `begin` before the tests of a file or suite, and `end` after them. If --test-name-pattern leaves out all tests,
 * node:test runs an `after` hook while the `before` hook still runs. So `end` waits for `begin`: otherwise what `begin`
 * opens would stay open, and the process would never end.
 */
export function aroundTests(begin: () => Promise<unknown>, end: () => unknown): void {
  let begun: Promise<unknown> = Promise.resolve();
  before(() => {
    begun = begin();
    return begun;
  });
  after(async () => {
    await begun.catch(() => {});
    await end();
  });
}
