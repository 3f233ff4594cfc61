/** What the semantic conventions say for a word that is not among those that are known. */
export const OTHER = '_OTHER';
