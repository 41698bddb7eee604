/** Something that must hold. */
export interface Bar {
  text: string;
  ok: boolean;
  /** What was found, where that says more than the text. */
  found?: string;
}
