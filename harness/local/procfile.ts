export interface ProcfileLine {
  name: string;
  command: string;
}

/**
 * Returns the lines `name: command` of a Procfile. Skips empty lines and `#` comments. Throws for any other
 * line.
 */
export function parseProcfile(text: string): ProcfileLine[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, command] = /^([A-Za-z0-9_-]+):\s*(.+)$/.exec(line) ?? [];
      if (!name || !command) throw new Error(`the Procfile's line is not "name: command": ${line}`);
      return { name, command };
    });
}
