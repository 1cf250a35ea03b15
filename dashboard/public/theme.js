// Before the first paint, so that nobody is shown the other theme for a moment.
const theme = localStorage.getItem("horae.theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
