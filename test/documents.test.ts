import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { clientSources } from '../harness/client_sources.ts';
import { root } from '../harness/processes/command.ts';
import { envExample, settingsPage } from '../harness/settings_document.ts';
import { VARIABLES } from '../src/config/settings.ts';
import { ERRORS } from '../src/errors.ts';
import { FINDING_KINDS } from '../src/maintenance/sweep/finding.ts';
import { LAYOUT } from '../src/store/keys.ts';
import { readScripts } from '../src/store/script_source.ts';

const read = (path: string) => readFileSync(join(root, path), 'utf8');
const layout = Object.values(LAYOUT).map(({ pattern, type }) => `${pattern} ${type}`);

/** Returns the cells of all rows of the tables of a section, without the heads. */
function rows(document: string, heading: string): string[][] {
  const section = read(document)
    .split(new RegExp(`^##+ ${heading}$`, 'm'))[1]
    ?.split(/^## /m)[0];
  assert.ok(section, `${document} has a section ${heading}`);
  const lines = section.split('\n').filter((line) => line.startsWith('| `') || line.startsWith('| *`'));
  return lines.map((line) =>
    line
      .slice(2, -2)
      .split(' | ')
      .map((cell) => cell.trim()),
  );
}

const code = (cell: string | undefined) => /^\*?`([^`]+)`\*?$/.exec(cell ?? '')?.[1];
const sorted = (items: Iterable<string | undefined>) => [...items].sort();

describe('INTERNALS.md', () => {
  test('has every key of the layout with its type, and no other', () => {
    const documented = rows('INTERNALS.md', 'Data layout').map(([key, type]) => `${code(key)} ${type}`);
    assert.deepEqual(sorted(documented), sorted(layout));
  });

  test('has everything that a sweep can find, and nothing else', () => {
    const documented = rows('INTERNALS.md', 'Sweep').map(([kind]) => code(kind));
    assert.deepEqual(sorted(documented), sorted(Object.keys(FINDING_KINDS)));
  });
});

test('each script says at its head what it does', () => {
  for (const { name, path, text } of readScripts()) assert.ok(text.startsWith(`--[[\n${name}: `), path);
});

const DOCUMENTS = ['*.md', 'docs/*.md', 'packages/*/README.md']
  .flatMap((pattern) => globSync(pattern, { cwd: root }))
  .sort();

/** Returns the anchors of a document's headings, which links to them end in. */
const anchors = (document: string) =>
  [...read(document).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  );

for (const document of DOCUMENTS) {
  describe(document, () => {
    const text = read(document);

    test('links to files and headings that are there', () => {
      for (const [link, path = '', anchor] of text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)) {
        const target = path === '' ? document : join(dirname(document), path);
        assert.doesNotThrow(() => read(target), link);
        if (anchor !== undefined) assert.ok(anchors(target).includes(anchor), link);
      }
    });

    test('names files and folders that are there', () => {
      for (const [, path = ''] of text.matchAll(
        /`((?:src|lua|test|docs|harness|packages|faults|fuzz|bench|bin)\/[\w./-]*)`/g,
      ))
        assert.ok(existsSync(join(root, path)), `${document} names ${path}`);
    });

    test('names settings that there are', () => {
      const names = [...text.matchAll(/\bROUTEMASTER_[A-Z0-9_]+/g)].map(([name]) => name);
      const known = [
        ...VARIABLES,
        'ROUTEMASTER_DATA_DIR',
        'ROUTEMASTER_BUS',
        'ROUTEMASTER_TOKEN',
        'ROUTEMASTER_SECRET',
      ];
      assert.deepEqual(
        names.filter((name) => !known.includes(name)),
        [],
      );
    });
  });
}

for (const document of DOCUMENTS.filter((each) => each !== 'CHANGELOG.md')) {
  test(`${document}: its prose is at most 120 columns wide`, () => {
    const prose = read(document)
      .replace(/^```.*?^```/gms, '')
      .split('\n')
      .filter((line) => !line.startsWith('|'));
    assert.deepEqual(
      prose.filter((line) => line.length > 120),
      [],
    );
  });
}

for (const document of DOCUMENTS.filter((each) => read(each).includes('`npm pack --'))) {
  test(`${document}: says that bin/setup, which installs the compiler, comes before npm pack`, () => {
    assert.ok(/`bin\/setup` and\s+then\s+`npm pack --/.test(read(document)));
  });
}

for (const file of ['app.json', 'docker-compose.yml']) {
  test(`${file}: sets what the bus reads`, () => {
    for (const [name] of read(file).matchAll(/\bROUTEMASTER_[A-Z0-9_]+/g))
      assert.ok(VARIABLES.includes(name), name);
  });
}

// `npm run settings` writes both.
describe('the settings', () => {
  test('are all in .env.example, commented out, with their defaults', () => {
    assert.equal(read('.env.example'), envExample());
  });

  test('are all in docs/settings.md, by subject', () => {
    assert.equal(read('docs/settings.md'), settingsPage());
  });
});

test('package.json, package-lock.json and CHANGELOG.md name the same release', () => {
  const { version } = JSON.parse(read('package.json'));
  const lock = JSON.parse(read('package-lock.json'));
  assert.deepEqual([lock.version, lock.packages[''].version], [version, version]);
  assert.equal(/^## (\S+)/m.exec(read('CHANGELOG.md'))?.[1], version);
});

describe('packages/client', () => {
  const sources = clientSources();

  // `npm run client` writes them.
  for (const [name, text] of Object.entries(sources)) {
    const path = `packages/client/src/generated/${name}`;
    test(`has in ${path} what the route table and the errors say`, () => {
      assert.equal(read(path), text, 'after a change, run `npm run client`');
    });
  }

  for (const [, call = ''] of (sources['calls.ts'] ?? '').matchAll(/^ {2}'([A-Z]+ [^']+)'/gm)) {
    test(`has a method for ${call}, which a test calls`, () => {
      const advice = 'add a method to packages/client/src/api.ts, and a line to METHODS of the test';
      assert.ok(read('test/packages/client/calls.ts').includes(`'${call}'`), advice);
    });
  }
});

describe('SECURITY.md', () => {
  test('has a test for all that a client can take at most', () => {
    const section = read('SECURITY.md').split('### What one client can take at most')[1]?.split(/^## /m)[0];
    const limits = section?.split('\n').filter((line) => line.startsWith('| ')) ?? [];
    assert.ok(limits.length > 2);
    for (const limit of limits.slice(2)) assert.match(limit, /`test\/security\/[\w/]+\.test\.ts` \|$/, limit);
  });

  test('names every test of a fence', () => {
    for (const path of globSync('test/security/fences/*.test.ts', { cwd: root }))
      assert.ok(read('SECURITY.md').includes(`\`${path}\``), path);
  });
});

describe('docs/api.md', () => {
  test('has every error code with its status, and no other', () => {
    const documented = rows('docs/api.md', 'Errors').map(([name, status]) => `${code(name)} ${status}`);
    const known = Object.entries(ERRORS).map(([name, { status }]) => `${name} ${status}`);
    assert.deepEqual(sorted(documented), sorted(known));
  });
});
