import { SECTIONS } from '../src/config/settings.ts';

const COLUMNS = 120;

/** The text of `.env.example`: every setting, commented out, with its default. */
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

/** Rows of a Markdown table: variable, default, help. */
export function settingRows(): string[] {
  return Object.values(SECTIONS).flatMap((settings) =>
    Object.values(settings).map(({ variable, unset, help }) => {
      const cell = unset ? `\`${unset}\`` : '';
      return `| \`${variable}\` | ${cell} | ${help.replaceAll('|', '\\|')} |`;
    }),
  );
}

// `node harness/settings_document.ts > .env.example`
if (import.meta.main) process.stdout.write(envExample());
