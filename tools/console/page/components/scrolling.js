// Rows that scroll sideways on narrow screens: tabs, and the navigation.
const MARGIN_PX = 24;

/** Scroll a row so far that one of its items is in sight; the page itself stays where it is. */
export function showInRow(row, item) {
  if (!row || !item) return;
  const { left, right } = row.getBoundingClientRect();
  const { left: first, right: last } = item.getBoundingClientRect();
  if (first < left) row.scrollLeft -= left - first + MARGIN_PX;
  else if (last > right) row.scrollLeft += last - right + MARGIN_PX;
}
