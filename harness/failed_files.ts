import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';

/** A reporter of Node's test runner. Yields the paths of the test files with a failed test, one a line. */
// biome-ignore lint/style/noDefaultExport: node takes the default export of a reporter.
export default async function* failedFiles(events: AsyncIterable<TestEvent>) {
  const files = new Set<string>();
  for await (const { type, data } of events) if (type === 'test:fail') files.add(String(entryOf(data)));
  for (const file of files) yield `${relative('', file)}\n`;
}

/** The file that node was given. `file` would be the one that calls test(), which may be a helper of several files. */
function entryOf(data: { file?: string; entryFile?: string }): string | undefined {
  return data.entryFile ?? data.file;
}
