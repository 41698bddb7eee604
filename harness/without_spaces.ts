/** Removes the random spaces before the timestamp of each event in `json`. Events with a given id have them. */
export function withoutSpaces(json: string): string {
  return json.replaceAll(/(?<="t":)[ \t]{8}/g, '');
}
