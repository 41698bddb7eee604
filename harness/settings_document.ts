import { readFileSync, writeFileSync } from 'node:fs';
import { SECTIONS } from '../src/config/settings.ts';

const COLUMNS = 120;

/** Returns the text of `.env.example`: every setting, commented out, with its default. */
export function envExample(): string {
  const sections = Object.entries(SECTIONS).map(([title, settings]) => [
    `# --- ${title} `.padEnd(COLUMNS, '-'),
    ...Object.values(settings).map(({ variable, unset = '', help }) => `# ${help}\n# ${variable}=${unset}`),
  ]);
  return `${[
    '# Every variable that Routemaster reads, with its default. An empty value counts as unset.\n' +
      '# `bin/start` reads a file `.env` like this one; the real environment wins.',
    ...sections.flat(),
  ].join('\n\n')}\n`;
}

/** Returns the table of settings in `docs/operating.md`: variable, default, help. */
export function settingsTable(): string {
  const rows = Object.values(SECTIONS).flatMap((settings) =>
    Object.values(settings).map(({ variable, unset, help }) => {
      const cell = unset ? `\`${unset}\`` : '';
      return `| \`${variable}\` | ${cell} | ${help.replaceAll('|', '\\|')} |`;
    }),
  );
  return ['| variable | default | what it sets |', '| --- | --- | --- |', ...rows, ''].join('\n');
}

// `npm run settings` writes both documents.
if (import.meta.main) {
  writeFileSync('.env.example', envExample());
  const page = readFileSync('docs/operating.md', 'utf8');
  writeFileSync(
    'docs/operating.md',
    page.replace(/^\| variable .*\n(\|.*\n)*/m, () => settingsTable()),
  );
}
