import { basename, relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';

/** A reporter of Node's test runner. Yields the paths of the test files with a failed test, one a line. */
// biome-ignore lint/style/noDefaultExport: node takes the default export of a reporter.
export default async function* failedFiles(events: AsyncIterable<TestEvent>) {
  const files = new Set<string>();
  for await (const { type, data } of events)
    if (type === 'test:fail' && data.nesting === 0) files.add(relative('', fileOf(data)));
  for (const file of files) yield `${file}\n`;
}

interface Failure {
  name: string;
  file?: string;
  entryFile?: string;
}

/** The test file. Of a folder whose files run together, that is the name of the outermost suite (together.ts). */
function fileOf(failure: Failure): string {
  // The file that node was given. `file` would be the one that calls test(), which may be a helper of several files.
  const given = failure.entryFile ?? failure.file ?? '';
  return basename(given) === 'together.ts' ? failure.name : given;
}
