"""`myxtts studio`: one page in the browser for the whole way from recordings to a voice.

The page is a face: whatever it does, a command does as well, and it shows which. `project` is the
folder it works in, `jobs` the processes it starts, `app` what it answers.
"""
